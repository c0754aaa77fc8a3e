"""Loads over plain HTTP, with a client that costs next to nothing: otherwise a library would be measured."""

import asyncio
import time
from collections import deque
from collections.abc import Iterator
from itertools import islice
from typing import Any, cast
from urllib.parse import urlsplit

from pydantic_core import from_json, to_json

from treadle.client.client import Client
from treadle_bench.figures import BenchFailed
from treadle_bench.loads.tasks import make_job

_END = b"\r\n\r\n"
_LENGTH = b"content-length:"


class Connection(asyncio.Protocol):
    """A keep-alive connection with pipelined requests."""

    def __init__(self, host: str, token: str) -> None:
        self._fields = f"Host: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        self._buffer = bytearray()
        self._answers: deque[asyncio.Future[bytes]] = deque()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, url: str, token: str) -> "Connection":
        """Connect to the server. Raises `OSError`."""
        where = urlsplit(url)
        assert where.hostname is not None
        assert where.port is not None
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(lambda: cls(where.netloc, token), where.hostname, where.port)
        return connection

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Return an encoded request."""
        return f"{method} {path} HTTP/1.1\r\n{self._fields}Content-Length: {len(body)}\r\n\r\n".encode() + body

    async def send(self, request: bytes) -> bytes:
        """Send a request and return the body of its answer. Raises `BenchFailed` for a status other than 2xx."""
        assert self._transport is not None
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self._transport.write(request)
        return await answer

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send JSON and return the answer's JSON. Raises `BenchFailed` for a status other than 2xx."""
        return from_json(await self.send(self.request(method, path, b"" if body is None else to_json(body))))

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one only by behaviour

    def data_received(self, data: bytes) -> None:
        """Resolve every complete answer; this server always sends a Content-Length."""
        self._buffer += data
        while (end := self._buffer.find(_END)) >= 0:
            head = bytes(self._buffer[:end]).lower()
            at = head.index(_LENGTH) + len(_LENGTH)
            size = int(head[at:].split(b"\r\n", 1)[0])
            whole = end + len(_END) + size
            if len(self._buffer) < whole:
                return
            body = bytes(self._buffer[end + len(_END) : whole])
            del self._buffer[:whole]
            self._answer(head, body)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail the waiting requests."""
        for answer in self._answers:
            answer.set_exception(BenchFailed(f"the server closed a connection: {exc}"))

    def close(self) -> None:
        """Close the connection."""
        assert self._transport is not None
        self._transport.close()

    def _answer(self, head: bytes, body: bytes) -> None:
        answer = self._answers.popleft()
        if head.split(b" ", 2)[1].startswith(b"2"):
            answer.set_result(body)
        else:
            answer.set_exception(BenchFailed(f"{head.splitlines()[0].decode()}: {body[:300]!r}"))


async def prepare(url: str, token: str) -> str:
    """Register the no-op, and return the path at which it is submitted."""
    job = make_job(0)
    async with Client(url, token) as client:
        await client.register(job)
    return f"/v1/rooms/@global/tasks/{job.full_name}"


async def submit(url: str, token: str, *, count: int, connections: int) -> dict[str, float]:
    """Submit no-ops, one per request, on this many connections; return the seconds that it took."""
    path = await prepare(url, token)
    opened = [await Connection.open(url, token) for _ in range(connections)]
    numbers = iter(range(count))
    began = time.monotonic()
    await asyncio.gather(*(_submit(connection, path, numbers) for connection in opened))
    seconds = time.monotonic() - began
    for connection in opened:
        connection.close()
    return {"seconds": seconds}


async def _submit(connection: Connection, path: str, numbers: Iterator[int]) -> None:
    for n in numbers:
        await connection.send(connection.request("POST", path, b'{"payload":{"n":%d}}' % n))


async def claim(url: str, token: str, *, count: int, connections: int) -> dict[str, float]:
    """Act as a worker over HTTP: claim 100 at once and report starts and ends in one request, until all are done.

    Return the seconds from the first claim's answer to the last report's.
    """
    opened = [await Connection.open(url, token) for _ in range(connections)]
    worker = (await opened[0].ask("POST", "/v1/workers", {"concurrency": 100 * connections}))["id"]
    job = make_job(0)
    wanted = {"category": job.job.category, "name": job.job.name, "schema": job.signature.schema, "retain": True}
    await opened[0].ask("PUT", "/v1/rooms/@global/jobs", {**wanted, "worker_id": worker})
    began: list[float] = []
    left = iter(range(count))
    await asyncio.gather(*(_work(connection, worker, left, began) for connection in opened))
    seconds = time.monotonic() - min(began)
    for connection in opened:
        connection.close()
    return {"seconds": seconds}


async def _work(connection: Connection, worker: str, left: Iterator[int], began: list[float]) -> None:
    while wanted := len(list(islice(left, 100))):
        while wanted:
            claimed = await connection.ask("POST", "/v1/tasks/claim", {"worker_id": worker, "tasks": wanted, "wait": 5})
            began.append(time.monotonic())
            runs = [{"task_id": task["id"], "run_id": task["run_id"]} for task in claimed["tasks"]]
            if not runs:
                raise BenchFailed("tasks are pending, and none could be claimed for five seconds")
            reports = [{**run, "kind": kind} for kind in ("started", "completed") for run in runs]
            answers = await connection.ask("POST", f"/v1/workers/{worker}/reports", {"reports": reports})
            if refused := [answer for answer in answers["answers"] if answer["status"] != 200]:
                raise BenchFailed(f"a report was refused: {refused[0]}")
            wanted -= len(runs)


async def read(url: str, token: str, *, paths: list[str], count: int) -> list[float]:
    """Make the GETs in turn until there were `count` requests; return how many ms each took."""
    connection = await Connection.open(url, token)
    requests = [connection.request("GET", path) for path in paths]
    for request in requests[:5]:
        await connection.send(request)
    times = []
    for n in range(count):
        before = time.monotonic()
        await connection.send(requests[n % len(requests)])
        times.append((time.monotonic() - before) * 1000)
    connection.close()
    return times
