"""A line between a worker and its server that can be cut, silenced and healed."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit


class Wire:
    """Passes bytes on, both ways; each connection is kept until it is cut."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._flows = asyncio.Event()
        self._flows.set()
        self._is_down = False
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""
        self.sent: list[bytes] = []
        """What the worker sent, in the order in which it came."""

    def silence(self) -> None:
        """Lose every byte's way, both ways, and tell nobody: no connection ends, and new ones get no answer."""
        self._flows.clear()

    def cut(self) -> None:
        """Reset every connection, and refuse new ones."""
        self._is_down = True
        for writer in list(self._writers):
            # A reset rather than an end: closing with a linger time of zero.
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    def heal(self) -> None:
        """Let bytes through again, those too that waited."""
        self._is_down = False
        self._flows.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of the worker."""
        if self._is_down:
            writer.transport.abort()
            return
        self._writers.add(writer)
        try:
            await self._flows.wait()
            assert self._target.hostname is not None
            far_reader, far_writer = await asyncio.open_connection(self._target.hostname, self._target.port)
            self._writers.add(far_writer)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pump(reader, far_writer, self.sent))
                    group.create_task(self._pump(far_reader, writer, None))
            finally:
                self._writers.discard(far_writer)
        except ConnectionError:
            writer.transport.abort()
        finally:
            self._writers.discard(writer)

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: list[bytes] | None) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(65536):
                await self._flows.wait()
                if seen is not None:
                    seen.append(data)
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    """A wire to the server at `url` during the block."""
    wire = Wire(url)
    server = await asyncio.start_server(wire.carry, "127.0.0.1", 0)
    wire.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield wire
    finally:
        server.close()
        wire.cut()
        wire.heal()
