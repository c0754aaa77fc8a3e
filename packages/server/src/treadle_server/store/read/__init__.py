"""What the store tells: every read, each in one short statement on a read connection, none of them taking a lock."""
