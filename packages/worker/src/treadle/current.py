"""Which client is meant where none is named: the innermost around the code, or else the only one of the process."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

from treadle.errors import NoClient

if TYPE_CHECKING:
    from treadle.client import Client

_around: ContextVar[tuple["Client", ...]] = ContextVar("treadle_clients", default=())
"""The clients of the `with` blocks that this code stands in, the innermost last."""

_open: dict["Client", None] = {}
"""The open clients of the process that are found from everywhere. Used as a set whose single steps are atomic: with a
lock, a process that was forked while a thread held it would wait for ever."""


def current_client() -> "Client":
    """Return the innermost open client of this coroutine or thread, or else the only one that the process has open.

    Handlers of a web framework find the client that its lifespan has entered so, threads and other event loops too.
    Raises `NoClient` when there is none, or several to choose from.
    """
    for client in reversed(_around.get()):
        if client.is_open:
            return client
    found = [client for client in tuple(_open) if client.is_open]
    if len(found) == 1:
        return found[0]
    if not found:
        raise NoClient(
            "no client is open: submit inside `async with Client():` or `with SyncClient():`, or open one for the whole"
            " process with its open(), as in docs/frameworks.md"
        )
    named = ", ".join(map(repr, found))
    raise NoClient(
        f"{len(found)} clients are open in this process ({named}) and none of them around this code: say which one with"
        " client.submit(task.bind(…)), or open all but one with default=False"
    )


def enter(client: "Client") -> None:
    """Make a client the innermost one of the code that runs from here."""
    _around.set((*_open_around(client), client))


def leave(client: "Client") -> None:
    """Undo `enter`. In another context, as a generator's last part may run in, this changes nothing."""
    _around.set(_open_around(client))


def show(client: "Client") -> None:
    """Let an open client be found from everywhere."""
    for other in tuple(_open):
        # Those that nobody closed: their event loop has ended, or they came along with a fork.
        if not other.is_open:
            hide(other)
    _open[client] = None


def hide(client: "Client") -> None:
    """Undo `show`."""
    _open.pop(client, None)


def _open_around(but: "Client") -> tuple["Client", ...]:
    return tuple(client for client in _around.get() if client is not but and client.is_open)
