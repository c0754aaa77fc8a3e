"""Who waits for tasks, what is claimable, and who gets which."""
