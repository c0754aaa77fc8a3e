"""PostgreSQL's side of the store: its writer and clock, the exclusive writer, connections that bypass poolers."""
