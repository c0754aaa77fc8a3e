"""Looks up the names of receivers, in its own threads.

A name whose servers are silent keeps a thread busy for half a minute, even after the caller has given up. The loop's
own four threads are needed by others, connections to PostgreSQL among them, and the loop waits for them on shutdown.
"""

import asyncio
import socket
import threading
from contextlib import suppress

MOST = 64
"""Most names that are looked up at once."""

Found = list[str] | OSError | UnicodeError


class Names:
    """Looks names up, each in one thread, however many deliveries wait for it."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Future[list[str]]] = {}
        self._room = asyncio.Semaphore(MOST)

    async def addresses(self, host: str) -> list[str]:
        """Return the addresses of a host, best first. Raises `OSError` or `UnicodeError` if it has none."""
        if host not in self._under_way:
            await self._room.acquire()
            if host in self._under_way:
                self._room.release()
            else:
                self._begin(host)
        # A caller that gives up leaves the lookup running for the others, and for later ones.
        return await asyncio.shield(self._under_way[host])

    def _begin(self, host: str) -> None:
        loop = asyncio.get_running_loop()
        awaited = self._under_way[host] = loop.create_future()

        def settle(found: Found) -> None:
            del self._under_way[host]
            self._room.release()
            if isinstance(found, list):
                awaited.set_result(found)
            else:
                awaited.set_exception(found)
                awaited.exception()  # retrieved, so that asyncio does not warn when all callers have given up

        def work() -> None:
            found = _looked_up(host)
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, found)

        threading.Thread(target=work, name="treadle-name", daemon=True).start()


def _looked_up(host: str) -> Found:
    try:
        infos = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return error
    return list(dict.fromkeys(str(info[4][0]) for info in infos))
