"""Tells the connection of a request or websocket that its client is trusted, or that it must end."""

from collections.abc import MutableMapping
from typing import Any

SCOPE_KEY = "treadle.connection"
"""The key of the connection in the scope of a request or websocket; under other servers there is none."""


def trust(scope: MutableMapping[str, Any]) -> None:
    """Mark the scope's connection as trusted: a token or signed URL was accepted on it."""
    if (connection := scope.get(SCOPE_KEY)) is not None:
        connection.trust()


def drop(scope: MutableMapping[str, Any]) -> None:
    """Cut the scope's connection."""
    if (connection := scope.get(SCOPE_KEY)) is not None:
        connection.drop()
