"""A proxy between a client or worker and its server, which may refuse websockets or cut connections."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Proxy:
    """Passes bytes on; it may refuse websockets, or cut every connection."""

    def __init__(self, target: str) -> None:
        self._target = target.rsplit("/", 1)[1].split(":")
        self.refuses_sockets = False
        self.refusal = "404 Not Found"
        self.refused = 0
        """Websockets that were refused."""
        self.is_down = False
        self.url = ""
        self.was_refused = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            self.was_refused.set()
            writer.close()
            return
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            # A connection that was opened and not used.
            writer.close()
            return
        if self.refuses_sockets and b"upgrade: websocket" in head.lower():
            self.refused += 1
            writer.write(f"HTTP/1.1 {self.refusal}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
            writer.close()
            return
        to_server = await asyncio.open_connection(self._target[0], int(self._target[1]))
        to_server[1].write(head)
        self._writers |= {writer, to_server[1]}
        async with asyncio.TaskGroup() as group:
            group.create_task(pump(reader, to_server[1]))
            group.create_task(pump(to_server[0], writer))
        self._writers -= {writer, to_server[1]}

    def cut(self) -> None:
        """Cut every connection."""
        for writer in self._writers:
            writer.transport.abort()


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass on what comes, to its end."""
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        return
    finally:
        writer.close()


@asynccontextmanager
async def proxy_to(url: str) -> AsyncIterator[Proxy]:
    proxy = Proxy(url)
    server = await asyncio.start_server(proxy.handle, "127.0.0.1", 0)
    proxy.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield proxy
    finally:
        server.close()
        proxy.cut()
