"""A whole database moved between SQLite and PostgreSQL: all of it or nothing, and a server goes on there (F8)."""
