"""The clients that are open in this process: those around the code, and those that are found from everywhere."""

from contextvars import ContextVar
from typing import Any, Protocol


class Open(Protocol):
    """What this module needs to know of a client."""

    @property
    def is_open(self) -> bool:
        """Whether requests can be made."""


_around: ContextVar[tuple[Any, ...]] = ContextVar("treadle_clients", default=())
"""The clients of the `with` blocks around this code, the innermost last."""

_open: dict[Any, None] = {}
"""The open clients of the process that are found from everywhere. A dict used as a set, whose single operations are
atomic: with a lock, a process that was forked while a thread held it would wait for ever."""


def enter(client: Open) -> None:
    """Make a client the innermost one for the code that runs from here."""
    _around.set((*_open_around(client), client))


def leave(client: Open) -> None:
    """Undo `enter`; does nothing in another context, in which the end of a generator may run."""
    _around.set(_open_around(client))


def show(client: Open) -> None:
    """Let an open client be found from everywhere."""
    for other in tuple(_open):
        # Clients that nobody closed: their event loop has ended, or they were inherited through a fork.
        if not other.is_open:
            hide(other)
    _open[client] = None


def hide(client: Open) -> None:
    """Undo `show`."""
    _open.pop(client, None)


def innermost() -> Any:
    """Return the innermost open client around this code, or None."""
    return next((client for client in reversed(_around.get()) if client.is_open), None)


def shown() -> list[Any]:
    """Return the open clients that are found from everywhere."""
    return [client for client in tuple(_open) if client.is_open]


def stale_clients() -> list[Any]:
    """Return clients that are no longer open although nobody closed them, for instance because of a fork."""
    return [client for client in tuple(_open) if not client.is_open]


def _open_around(but: Open) -> tuple[Any, ...]:
    return tuple(client for client in _around.get() if client is not but and client.is_open)
