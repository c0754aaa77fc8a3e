"""How long `/healthz` takes while strangers and users do their worst, one kind after the other.

    python -m tests.bench.siege [--seconds 5] [--database-url …]

Bar: 250 ms. Beside each figure stands how late a timer of this process came meanwhile: so long the machine itself did
not go on.
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
import zlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from tests.chaos.processes import ServerProcess, running_server
from tests.operations.heavy import tree, twice, union

BAR = 0.25
EVERY = 0.01
"""Seconds between two looks."""

Attack = Callable[[ServerProcess, httpx.AsyncClient], Awaitable[None]]
REFUSED = (httpx.HTTPError, OSError, WebSocketException, TimeoutError)
"""What an attacker may be told."""


def expect(answer: httpx.Response, *statuses: int) -> None:
    """Raise unless it is what this attack is to be told: one that is refused for another reason shows nothing."""
    if answer.status_code not in statuses:
        raise ValueError(f"{answer.request.url}: {answer.status_code} {answer.text[:300]}")


async def register(client: httpx.AsyncClient, name: str, schema: dict[str, Any]) -> str:
    """Register a job and return its name."""
    body = {"category": "tasks", "name": name, "schema": schema, "retain": True}
    (await client.put("/v1/rooms/lab/jobs", json=body)).raise_for_status()
    return f"lab:tasks:{name}"


async def submit(client: httpx.AsyncClient, job: str, payload: object) -> None:
    """Submit one task that is refused for its payload, or told to come again."""
    answer = await client.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": job, "payload": payload}]})
    expect(answer, 422, 429, 503)


async def endless_checks(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """Ten payloads at once whose check branches without end."""
    job = await register(client, "union", union())
    await asyncio.gather(*(submit(client, job, tree(30)) for _ in range(10)))


async def endless_schemas(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """Schemas whose definitions each refer twice to the next."""
    for depth in (16, 24):
        job = await register(client, f"twice-{depth}", twice(depth))
        await submit(client, job, {"x": "wrong"})


async def errors_everywhere(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """A payload of 60,000 items, each of which is wrong."""
    job = await register(client, "texts", {"properties": {"x": {"items": {"type": "string"}}}})
    await submit(client, job, {"x": list(range(60_000))})


async def deep_values(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """Bodies that are nested 100,000 deep, or hold a number of 100,000 digits, or NUL a million times."""
    job = await register(client, "any", {})
    for value in ("[" * 100_000 + "]" * 100_000, "9" * 100_000, '"' + "\\u0000" * 1_000_000 + '"'):
        body = f'{{"tasks": [{{"job": "{job}", "payload": {{"x": {value}}}}}]}}'
        answer = await client.post("/v1/rooms/lab/tasks", content=body, headers={"content-type": "application/json"})
        expect(answer, 400, 413, 422)


async def many_at_once(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """Submits of 1,000 tasks each."""
    job = await register(client, "bulk", {})
    tasks = [{"job": job, "payload": {"n": n, "text": "x" * 1_000}} for n in range(1_000)]
    for answer in await asyncio.gather(*(client.post("/v1/rooms/lab/tasks", json={"tasks": tasks}) for _ in range(4))):
        expect(answer, 202)


async def wide_reads(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """The longest pages, through filters that match little, twenty at once."""
    wanted = (
        {"limit": 500},
        {"limit": 500, "text": "nothing"},
        {"limit": 500, "tag": "none:x"},
        {"limit": 500, "status": "failed"},
    )
    for answer in await asyncio.gather(*(client.get("/v1/tasks", params=params) for params in wanted * 5)):
        expect(answer, 200)


async def first_frames(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """First frames of 16 MB, and of 16 KB that unpack to as many."""
    large = json.dumps({"items": [{"op": "hello", "n": 0, "protocol": 1, "x": "y" * 16_000_000}]})
    packed = zlib.compress(large.encode())

    async def send(frame: str | bytes, **options: Any) -> None:
        with suppress(*REFUSED):
            async with connect(server.socket_url, max_size=None, **options) as socket:
                await socket.send(frame)
                await asyncio.wait_for(socket.recv(), 20)

    await asyncio.gather(*(send(frame) for frame in (large, packed) * 4))


async def silence(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """1,000 connections that say nothing, and 200 with headers that never end."""
    url = httpx.URL(server.url)
    opened = []
    for n in range(1_200):
        with suppress(*REFUSED):
            _, writer = await asyncio.open_connection(url.host, url.port)
            opened.append(writer)
            if n % 6 == 0:
                writer.write(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
    for _ in range(10):
        await asyncio.sleep(0.2)
        for writer in opened[::6]:
            with suppress(*REFUSED):
                writer.write(b"x")
    for writer in opened:
        writer.close()


async def wrong_tokens(server: ServerProcess, client: httpx.AsyncClient) -> None:
    """500 tokens that are none."""
    async with httpx.AsyncClient(base_url=server.url, timeout=30) as stranger:
        for _ in range(20):
            headers = {"authorization": f"Bearer {os.urandom(16).hex()}"}
            for answer in await asyncio.gather(*(stranger.get("/v1/tasks", headers=headers) for _ in range(25))):
                expect(answer, 401, 429)


ATTACKS: tuple[Attack, ...] = (
    *(endless_checks, endless_schemas, errors_everywhere, deep_values, many_at_once, wide_reads),
    *(first_frames, silence, wrong_tokens),
)


async def look(server: ServerProcess, until: asyncio.Event) -> tuple[float, float]:
    """Ask again and again; return the longest that an answer took, and that a timer was late, in seconds."""
    worst = late = 0.0
    async with httpx.AsyncClient(base_url=server.url, timeout=60) as client:
        while not until.is_set():
            began = time.perf_counter()
            (await client.get("/healthz")).raise_for_status()
            answered = time.perf_counter()
            worst = max(worst, answered - began)
            await asyncio.sleep(EVERY)
            late = max(late, time.perf_counter() - answered - EVERY)
    return worst, late


async def besiege(server: ServerProcess, attack: Attack, seconds: float) -> tuple[float, float, int]:
    """Attack again and again for so long, from a process of its own; return what `look` found, and how often."""
    until, turns, ends = asyncio.Event(), 0, time.monotonic() + seconds
    looking = asyncio.create_task(look(server, until))
    while time.monotonic() < ends or not turns:
        one = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.siege", "--attack", attack.__name__, "--at", server.url, server.token
        )
        assert await one.wait() == 0, f"{attack.__name__} could not be carried out"
        turns += 1
    until.set()
    return *(await looking), turns


class Besieged:
    """What an attacker knows of a server."""

    def __init__(self, url: str, token: str) -> None:
        self.url = url
        self.token = token
        self.headers = {"authorization": f"Bearer {token}"}
        self.socket_url = url.replace("http", "ws", 1) + "/v1/session"


async def carry_out(name: str, url: str, token: str) -> None:
    """Attack once."""
    server: Any = Besieged(url, token)
    attack = next(one for one in ATTACKS if one.__name__ == name)
    async with httpx.AsyncClient(base_url=url, headers=server.headers, timeout=60) as client:
        await attack(server, client)


async def measure(server: ServerProcess, seconds: float) -> bool:
    """Print a line for each attack; return whether all stayed under the bar."""
    is_met = True
    for attack in ATTACKS:
        worst, late, turns = await besiege(server, attack, seconds)
        is_met &= worst < BAR
        print(
            f"{attack.__name__:20} {worst * 1e3:7.0f} ms   (timer {late * 1e3:.0f} ms late, {turns} times)", flush=True
        )
    return is_met


def main() -> None:
    """Measure, print, and exit 1 when the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5, help="of each attack, at least")
    parser.add_argument("--database-url")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    parser.add_argument("--at", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        asyncio.run(carry_out(given.attack, *given.at))
        return
    with tempfile.TemporaryDirectory() as name:
        url = given.database_url or f"sqlite:///{name}/treadle.db"
        with running_server(Path(name), url) as server:
            is_met = asyncio.run(measure(server, given.seconds))
    sys.exit(not is_met)


if __name__ == "__main__":
    main()
