"""Which client is used where none is named: the innermost around the code, or else the only one of the process."""

from treadle.client.client import Client
from treadle.client.open_clients import innermost, shown, stale_clients
from treadle.errors import NoClient


def current_client() -> Client:
    """Return the innermost open client of this coroutine or thread, or else the only one that is open in this process.

    So the handlers of a web framework, also in threads and other event loops, find the client that its lifespan opened.
    Raises `NoClient` when there is none, or more than one to choose from.
    """
    client: Client | None = innermost()
    if client is not None:
        return client
    found: list[Client] = shown()
    if len(found) == 1:
        return found[0]
    if not found:
        for left in stale_clients():
            left.opening()  # raises `NoClient`, saying why this client is not open here
        raise NoClient(
            "no client is open: submit inside `async with Client():` or `with SyncClient():`, or open one for the whole"
            " process with its open(), as in docs/frameworks.md"
        )
    named = ", ".join(map(repr, found))
    raise NoClient(
        f"{len(found)} clients are open in this process ({named}), but none around this code: choose one with"
        " client.submit(task.bind(…)), or open all but one with default=False"
    )
