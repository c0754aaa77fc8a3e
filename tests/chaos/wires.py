"""A line between workers and their server that can be cut, silenced, slowed down, broken off, and healed."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["reset", "refuse", "half-close", "delay", "blackhole", "gateway", "stranger", "no-sockets", "torn"]
"""What a wire does until it is healed.

reset: every connection is reset, new ones as soon as they are made. refuse: nobody listens. half-close: the other end
says that it has nothing more to say, and listens on. delay: everything comes late. blackhole: nothing comes, and
nobody is told. gateway: a proxy answers 502 with a page. stranger: another program answers 401, and a problem of its
own. no-sockets: plain HTTP passes, a websocket does not. torn: of what comes next, on each connection, half passes,
and then it is reset.
"""

_PAGE = "<html>it is not here</html>"
_STRANGE = '{"type": "about:blank", "title": "Log in first", "status": 401}'


class Wire:
    """Passes bytes on, both ways; each connection is kept until it is cut."""

    def __init__(self, target: str) -> None:
        self._target = urlsplit(target)
        self._flows = asyncio.Event()
        self._flows.set()
        self._fault: Fault | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._near: set[asyncio.StreamWriter] = set()
        """The workers' side of them."""
        self._server: asyncio.Server | None = None
        self.url = ""
        self.sent: list[bytes] = []
        """What the workers sent, in the order in which it came."""
        self.met = 0
        """Connections that came during this fault, or that broke by it."""
        self.is_met = asyncio.Event()
        """Set once there is one."""
        self.latency = 0.3
        """Seconds that everything comes late in a delay."""

    async def begin(self, fault: Fault) -> None:
        """Do this to every connection, those that are there and those that come, until it is healed."""
        await self.restore()
        self._fault, self.met = fault, 0
        self.is_met.clear()
        match fault:
            case "reset" | "gateway" | "stranger":
                self._reset()
            case "refuse":
                assert self._server is not None
                self._server.close()
                self._reset()
            case "half-close":
                self._meet(len(self._near))
                for writer in list(self._near):
                    with suppress(OSError, RuntimeError):
                        writer.write_eof()
            case "blackhole":
                self.silence()
            case "no-sockets":
                self._reset()
            case "delay" | "torn":
                pass

    async def restore(self) -> None:
        """Heal, and listen again."""
        self.heal()
        if self._server is not None and not self._server.is_serving():
            await self.listen(self._server_port)

    async def listen(self, port: int = 0) -> None:
        """Take connections, on the same port as before if one is given."""
        self._server = await asyncio.start_server(self.carry, "127.0.0.1", port)
        self._server_port: int = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self._server_port}"

    def lead_to(self, target: str) -> None:
        """Join the connections that come from now on to another server."""
        self._target = urlsplit(target)

    def close(self) -> None:
        """Take no more connections, and break those that are there."""
        if self._server is not None:
            self._server.close()
        self.cut()
        self.heal()

    def silence(self) -> None:
        """Lose every byte's way, both ways, and tell nobody: no connection ends, and new ones get no answer."""
        self._flows.clear()

    def cut(self) -> None:
        """Reset every connection, and refuse new ones."""
        self._fault = "reset"
        self._reset()

    def _meet(self, count: int) -> None:
        self.met += count
        if self.met:
            self.is_met.set()

    def _reset(self) -> None:
        self._meet(len(self._near))
        for writer in list(self._writers):
            _reset(writer)

    def heal(self) -> None:
        """Let bytes through again, those too that waited."""
        self._fault = None
        self._flows.set()

    async def carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a worker."""
        fault = self._fault
        self._meet(fault is not None)
        if fault in {"reset", "refuse"}:
            _reset(writer)
            return
        self._writers.add(writer)
        self._near.add(writer)
        try:
            if fault == "half-close":
                writer.write_eof()
                await reader.read()
            elif fault in {"gateway", "stranger"}:
                await _answer(reader, writer, fault)
            else:
                await self._join(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, OSError):
            writer.transport.abort()
        finally:
            self._writers.discard(writer)
            self._near.discard(writer)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._flows.wait()
        head = b""
        if self._fault == "no-sockets":
            head = await reader.readuntil(b"\r\n\r\n")
            if b"upgrade: websocket" in head.lower():
                writer.write(_response("404 Not Found", _PAGE, "text/html"))
                return
        far_reader, far_writer = await self.reach()
        self._writers.add(far_writer)
        far_writer.write(head)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(reader, far_writer, writer, self.sent))
                group.create_task(self._pump(far_reader, writer, far_writer, None))
        finally:
            self._writers.discard(far_writer)
            # A pump that was cancelled has closed nothing.
            far_writer.close()

    async def reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the far end."""
        assert self._target.hostname is not None
        return await asyncio.open_connection(self._target.hostname, self._target.port)

    def cut_at(self, data: bytes, *, is_sent: bool) -> int | None:
        """Return after how many of these bytes the connection is to break; None: it goes on."""
        return len(data) // 2 if self._fault == "torn" and len(data) > 1 else None

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        back: asyncio.StreamWriter,
        seen: list[bytes] | None,
    ) -> None:
        with suppress(ConnectionError, RuntimeError):
            while data := await reader.read(65536):
                if self._fault == "delay":
                    await asyncio.sleep(self.latency)
                await self._flows.wait()
                if seen is not None:
                    seen.append(data)
                if (cut := self.cut_at(data, is_sent=seen is not None)) is not None:
                    self._meet(1)
                    writer.write(data[:cut])
                    _reset(back)
                    break
                writer.write(data)
                await writer.drain()
        writer.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset a connection rather than end it: closing with a linger time of zero."""
    found = writer.get_extra_info("socket")
    with suppress(OSError):
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, fault: Fault) -> None:
    await reader.readuntil(b"\r\n\r\n")
    # The fault that followed may have closed this side meanwhile.
    with suppress(RuntimeError):
        if fault == "gateway":
            writer.write(_response("502 Bad Gateway", _PAGE, "text/html"))
        else:
            writer.write(_response("401 Unauthorized", _STRANGE, "application/problem+json"))
        await writer.drain()


def _response(status: str, body: str, kind: str) -> bytes:
    head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return (head + body).encode()


@asynccontextmanager
async def wire_to(url: str) -> AsyncIterator[Wire]:
    """A wire to the server at `url` during the block."""
    wire = Wire(url)
    await wire.listen()
    try:
        yield wire
    finally:
        wire.close()
