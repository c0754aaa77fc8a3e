"""The tasks of `@internal` jobs, and the executors that run them on the server's side."""
