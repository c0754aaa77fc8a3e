"""The store's reads: each is a few short statements on a read connection, and takes no lock."""
