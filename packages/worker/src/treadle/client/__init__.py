"""What submits tasks, waits for them and steers them, awaited or blocking."""
