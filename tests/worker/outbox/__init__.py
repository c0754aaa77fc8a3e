"""The outbox: rows of a user's own database that become tasks, each once (F6)."""
