"""Storage for tasks: one interface to SQLite and PostgreSQL."""
