"""What the servers of one PostgreSQL tell each other: sent, received, and the text in between."""
