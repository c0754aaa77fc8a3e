"""A real HTTP server on loopback that webhooks are sent to: it keeps what came, and answers as it is told."""

import asyncio
import base64
import hashlib
import hmac
import json
import ssl
from collections.abc import Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"


def says(status: int, *headers: str, body: bytes = b"") -> bytes:
    """Return an answer."""
    lines = [f"HTTP/1.1 {status} X", *headers, f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


@dataclass(frozen=True)
class Got:
    """A request that came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def said(self) -> dict[str, Any]:
        return json.loads(self.body)

    def is_signed_with(self, secret: str) -> bool:
        """Verify as Standard Webhooks tells receivers to."""
        key = base64.b64decode(secret.split("_", 1)[1])
        signed = b".".join([self.id.encode(), self.headers["webhook-timestamp"].encode(), self.body])
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        given = [part.split(",", 1) for part in self.headers["webhook-signature"].split(" ")]
        return any(version == "v1" and hmac.compare_digest(expected, value) for version, value in given)


@dataclass
class Receiver:
    """Answers each request with the next of `answers`, then with 200; a function is awaited with the writer."""

    answers: list[bytes | Callable[[asyncio.StreamWriter], Any]] = field(default_factory=list)
    got: list[Got] = field(default_factory=list)
    port: int = 0
    tls: ssl.SSLContext | None = None
    _server: asyncio.Server | None = None
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _serving: set["asyncio.Task[Any]"] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def start(self) -> None:
        """Listen, after the first time at the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, ssl=self.tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Be gone: connections are refused."""
        if self._server is not None:
            self._server.close()
            # From Python 3.12 on it waits for its connections too, and an answer may be one that never ends.
            for task in self._serving:
                task.cancel()
            await self._server.wait_closed()
            self._server = None

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if task := asyncio.current_task():
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            first, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            self.got.append(Got(first.split()[1], headers, body))
            self._came.set()
            answer = self.answers.pop(0) if self.answers else OK
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            return  # the sender left: that is its right
        finally:
            writer.close()

    async def until(self, count: int) -> list[Got]:
        """Wait until so many requests have come, and return them."""
        async with asyncio.timeout(20):
            while len(self.got) < count:
                self._came.clear()
                await self._came.wait()
        return self.got


@asynccontextmanager
async def receiving(**options: Any):
    """Have a receiver for the block."""
    receiver = Receiver(**options)
    await receiver.start()
    try:
        yield receiver
    finally:
        await receiver.stop()
