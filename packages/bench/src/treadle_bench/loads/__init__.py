"""What runs in separate processes during a measurement: submitters, observers, workers, databases."""
