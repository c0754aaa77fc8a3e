"""The worker: claims tasks, holds their leases, runs them and reports on them."""
