"""Notices between the servers of one PostgreSQL: sending, receiving, and their encoding."""
