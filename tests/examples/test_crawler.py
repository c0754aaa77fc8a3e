"""The crawler's promise: many hosts at once, and none asked more than once a second."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from treadle import Client
from treadle.wire.status import Status

HOSTS = 10
PAGE = b'<a href="/a">a</a> <a href="http://elsewhere.example/">out</a>'
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(PAGE), PAGE)


@asynccontextmanager
async def hosts() -> AsyncIterator[list[str]]:
    """Serve a page at each of the addresses of this machine."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(ANSWER)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "0.0.0.0") as server:
        port = server.sockets[0].getsockname()[1]
        yield [f"http://127.0.0.{n}:{port}" for n in range(1, HOSTS + 1)]


async def test_the_crawler_asks_each_host_once_a_second_and_all_of_them_at_once(
    example: Any, worker: Any, until: Any
) -> None:
    module = example("examples.crawler")
    # Whichever of the two takes the first pages has room for all of them: nothing but the limit keeps one back.
    room = 2 * HOSTS
    async with hosts() as found, Client() as client, worker(module, concurrency=room), worker(module, concurrency=room):
        await module.main(found * 2)

        async def all_done() -> bool:
            return (await client.list(status=Status.COMPLETED, limit=1)).total >= 3 * HOSTS

        await until(all_done)
        tasks = [task async for task in client.list()]

    begun: dict[str, list[datetime]] = {}
    for task in sorted(tasks, key=lambda task: task.claimed_at):
        begun.setdefault(task.payload["host"], []).append(task.claimed_at)
    # Its first page twice, put in at once, and the one that it leads to.
    assert {len(times) for times in begun.values()} == {3}
    assert min(b - a for times in begun.values() for a, b in pairwise(times)) >= timedelta(seconds=1)
    assert max(times[0] for times in begun.values()) < min(times[1] for times in begun.values())
