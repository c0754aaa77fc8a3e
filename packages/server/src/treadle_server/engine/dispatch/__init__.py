"""What waits for tasks, which tasks are claimable, and which worker gets which task."""
