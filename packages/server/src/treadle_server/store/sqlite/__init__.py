"""SQLite's side of the store: its writer, its readers, and the lock that keeps a second server away."""
