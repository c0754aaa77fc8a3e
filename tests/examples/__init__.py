"""The programs in `examples`, each run against a real server."""
