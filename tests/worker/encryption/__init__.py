"""Keys, seals, and what of a task is sealed."""
