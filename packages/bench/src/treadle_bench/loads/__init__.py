"""What runs in processes of its own while something is measured: submitters, observers, workers, databases."""
