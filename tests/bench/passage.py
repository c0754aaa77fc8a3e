"""Shows what one task passes in the server, and what that takes: `python -m tests.bench.passage --help`.

Of a plain submit over HTTP and over the socket, and of a start, a completion and the next claim over the socket: in how
many modules how many functions are called, and how often one module hands on to another, as `sys.setprofile` tells.
Then, without that, the processor time of the server's thread, by what it is spent for (`tests.bench.marks`): other work
on the machine changes it far less than it does the time that passes. Everything runs in this process; the client speaks
the protocol by hand, in a thread of its own.
"""

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import uvloop
from uuid_utils import uuid7

from tests.bench.marks import PARTS, REST, Marks, on_the_way
from tests.bench.report import show
from tests.live.sockets import JOB, NAME, Socket, connected, ref
from treadle_bench.databases import open_databases
from treadle_bench.figures import POSTGRESQL, SQLITE
from treadle_server.testing import Served, serve

OURS = ("/treadle_server/", "/treadle/wire/")
"""The server's packages; drivers, Starlette, uvicorn and pydantic are passed over."""

SERIES = 41
"""Series of submits that are measured, behind one that warms up: the quickest is told."""

Step = Callable[[], Awaitable[Any]]
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Passage:
    """What the server's thread passed since it was begun to be looked at."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        """The module and the function of each call; a coroutine that goes on is called again."""

    def look(self, frame: FrameType, event: str, _: object) -> None:
        """Note a call."""
        code = frame.f_code
        if event == "call" and any(part in code.co_filename for part in OURS) and "testing.py" not in code.co_filename:
            self.calls.append((code.co_filename, f"{code.co_qualname}:{code.co_firstlineno}"))

    def sums(self) -> dict[str, int]:
        """Return how many modules and functions were passed, calls made, and moves from one module to another."""
        modules = [module for module, _ in self.calls]
        moves = sum(one != other for one, other in pairwise(modules))
        return {
            "modules": len(set(modules)),
            "functions": len(set(self.calls)),
            "calls": len(self.calls),
            "moves": moves,
        }


class Server:
    """A server in a thread of its own, and its loop."""

    def __init__(self, served: Served, loop: asyncio.AbstractEventLoop) -> None:
        self.served = served
        self._loop = loop

    async def call(self, function: Callable[[], Any]) -> None:
        """Call a function in the server's thread, and wait for it."""

        async def call() -> None:
            function()

        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(call(), self._loop))

    def end(self, ended: asyncio.Event) -> None:
        """Let the server end."""
        self._loop.call_soon_threadsafe(ended.set)

    async def passage(self, step: Step) -> Passage:
        """Return what the server passes while the step is made."""
        passage = Passage()
        await self.call(partial(sys.setprofile, passage.look))
        try:
            await step()
        finally:
            await self.call(partial(sys.setprofile, None))
        return passage


@contextmanager
def opened(database_url: str | None) -> Iterator[Server]:
    """Run a server during the block, on the loop that `treadle server` has."""
    ready: Future[tuple[Server, asyncio.Event]] = Future()

    async def main() -> None:
        async with serve(database_url) as served:
            ended = asyncio.Event()
            ready.set_result((Server(served, asyncio.get_running_loop()), ended))
            await ended.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(main())

    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(run)
        server, ended = ready.result()
        try:
            yield server
        finally:
            server.end(ended)
            done.result()


class Caller:
    """Submits, and works, as the SDK does, in frames and requests that are made by hand."""

    def __init__(self, socket: Socket, served: Served, stream: Stream | None = None) -> None:
        self._socket = socket
        self._served = served
        self._stream = stream

    async def submit(self) -> None:
        """Submit a task over the socket."""
        task = {"job": NAME, "payload": {"n": 1}, "id": str(uuid7())}
        [answer] = (await self._socket.call("submit_each", room="lab", tasks=[task], wait=False))["tasks"]
        assert "problem" not in answer, answer

    async def post(self) -> None:
        """Submit a task over HTTP."""
        body = b'{"payload":{"n":1}}'
        head = f"POST /v1/rooms/lab/tasks/{NAME} HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\n"
        head += f"Authorization: Bearer {self._served.token}\r\nContent-Length: {len(body)}\r\n\r\n"
        assert self._stream is not None
        reader, writer = self._stream
        writer.write(head.encode() + body)
        told = await reader.readuntil(b"\r\n\r\n")
        assert b" 202 " in told.partition(b"\r\n")[0], told
        [length] = [line for line in told.lower().splitlines() if line.startswith(b"content-length:")]
        await reader.readexactly(int(length.split(b":")[1]))

    async def work(self) -> None:
        """Report the start and the end of the claimed task together, and wait for the next claim."""
        [task] = await self._socket.claims(1)
        report = {**ref(task), "kind": "completed", "starts": True, "result": 1}
        answer = await self._socket.call("reports", reports=[report], brief=True)
        assert answer == {"refused": []}, answer
        self._socket.pushes.insert(0, await self._socket.pushed("claim"))


async def count_way(server: Server, rounds: int, *, listed: bool) -> list[dict[str, Any]]:
    """Return what each kind of step passes, the median of so many."""
    served = server.served
    stream = await asyncio.open_connection(served.settings.host, int(served.url.rsplit(":", 1)[1]))
    rows = []
    async with connected(served) as client, connected(served) as worker:
        await client.call("register", **JOB)
        caller = Caller(client, served, stream)
        for name, step in (("submit over HTTP", caller.post), ("submit over the socket", caller.submit)):
            rows.append(await _passed(server, name, step, rounds, listed=listed))
        await worker.call("open", worker={"concurrency": 1}, jobs=[JOB], prefetch=0)
        working = Caller(worker, served)
        name = "start, completion and next claim"
        rows.append(await _passed(server, name, working.work, rounds, listed=listed))
    stream[1].close()
    return rows


async def _passed(server: Server, name: str, step: Step, rounds: int, *, listed: bool) -> dict[str, Any]:
    for _ in range(rounds):
        await step()
    found = [await server.passage(step) for _ in range(rounds)]
    sums = [passage.sums() for passage in found]
    if listed:
        print(f"\n{name}: each call of the shortest")
        for module, function in min(found, key=lambda one: len(one.calls)).calls:
            print(f"  {module.rpartition('/src/')[2]} {function}")
    return {"what": name, **{key: int(median(one[key] for one in sums)) for key in sums[0]}}


async def time_way(server: Server, marks: Marks, rounds: int) -> list[dict[str, Any]]:
    """Return the microseconds of the server's thread for a lone submit over the socket, of the quickest series."""
    found: list[dict[str, float]] = []
    async with connected(server.served) as client:
        await client.call("register", **JOB)
        caller = Caller(client, server.served)
        for _ in range(SERIES + 1):
            await server.call(marks.begin)
            for _ in range(rounds):
                await caller.submit()
            await server.call(marks.turn)
            found.append({name: spent / rounds / 1e3 for name, spent in marks.spent.items()})
    names = [*dict.fromkeys(name for name, _, _ in PARTS), REST]
    # Behind the one that warms up, the series that was disturbed least.
    least = min(found[1:], key=lambda one: sum(one.values()))
    rows = [{"microseconds": least.get(name, 0.0), "for": name} for name in names]
    return [*rows, {"microseconds": sum(least.values()), "for": "all of it"}]


def main() -> None:
    """Count, measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", choices=[SQLITE, POSTGRESQL], default=SQLITE)
    parser.add_argument("--postgres-url", help="a PostgreSQL server where databases may be made; else one is started")
    parser.add_argument("--rounds", type=int, default=21, help="steps that are looked at, and submits of a series")
    parser.add_argument("--list", action="store_true", help="name each call")
    given = parser.parse_args()
    with (
        TemporaryDirectory(prefix="treadle-passage-") as scratch,
        open_databases([given.database], given.postgres_url, Path(scratch)) as (databases, _),
    ):
        with databases.fresh(given.database) as url, opened(url) as server:
            rows = asyncio.run(count_way(server, given.rounds, listed=given.list))
            show(f"What one task passes in the server on {given.database}", rows, {"rounds": given.rounds})
        marks = Marks()
        with databases.fresh(given.database) as url, on_the_way(marks), opened(url) as server:
            rows = asyncio.run(time_way(server, marks, given.rounds))
            show("Processor time of the server's thread for a lone submit over the socket", rows, {"series": SERIES})


if __name__ == "__main__":
    main()
