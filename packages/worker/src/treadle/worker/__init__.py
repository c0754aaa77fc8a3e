"""What claims tasks, holds their leases, runs them and reports of them."""
