"""The store's reads: each is one short statement on a read connection, and takes no lock."""
