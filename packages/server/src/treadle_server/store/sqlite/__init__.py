"""What holds for SQLite alone: its writer, its rows, and the lock that keeps a second server away."""
