"""Here a server is asked over HTTP as in the tests of `api`."""

from tests.api.conftest import alice, bob, lab, root, scoped, served, user

__all__ = ["alice", "bob", "lab", "root", "scoped", "served", "user"]
