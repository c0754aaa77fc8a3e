"""Where tasks are kept: one interface, on SQLite and on PostgreSQL."""
