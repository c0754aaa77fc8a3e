"""The clients, which submit tasks, wait for them and steer them, asynchronously or blocking."""
