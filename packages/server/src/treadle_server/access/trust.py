"""What a connection is told when a token was accepted on it: nobody on it is a stranger any more."""

from collections.abc import MutableMapping
from typing import Any

SCOPE_KEY = "treadle.connection"
"""Where the scope of a request or a socket has the connection on which it came; another server's scope has none."""


def trust(scope: MutableMapping[str, Any]) -> None:
    """Say that the scope's connection has shown a token that is accepted."""
    if (connection := scope.get(SCOPE_KEY)) is not None:
        connection.trust()
