"""What is said to the connection of a request or socket: that it is no stranger's any more, or that it ends."""

from collections.abc import MutableMapping
from typing import Any

SCOPE_KEY = "treadle.connection"
"""Where the scope of a request or a socket has the connection on which it came; another server's scope has none."""


def trust(scope: MutableMapping[str, Any]) -> None:
    """Say that the scope's connection has shown a token, or a signed URL, that is accepted."""
    if (connection := scope.get(SCOPE_KEY)) is not None:
        connection.trust()


def drop(scope: MutableMapping[str, Any]) -> None:
    """Cut the scope's connection, for nobody reads what is sent on it."""
    if (connection := scope.get(SCOPE_KEY)) is not None:
        connection.drop()
