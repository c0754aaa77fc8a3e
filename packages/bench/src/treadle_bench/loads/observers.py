"""Observers that act like dashboards: what they receive is counted, not drawn."""

import asyncio
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime
from itertools import pairwise
from typing import Any

from pydantic_core import from_json, to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from treadle.transport.bearer import Way
from treadle.transport.dialing import dial
from treadle_bench.loads.process import say, stopped

ROWS = 50
"""The number of task rows that a dashboard of usual size shows."""


@dataclass(slots=True)
class Seen:
    """What all observers together have received."""

    frames: int = 0
    size: int = 0
    ages: list[float] = field(default_factory=list)
    """In ms, for each hundredth of a second: the age of the newest change shown to one additional observer."""


async def observe(url: str, token: str, *, observers: int) -> dict[str, object]:
    """Act as this many dashboards, each on its own socket, until stopped; return the frames, their bytes and ages.

    Each subscribes to what the main screen shows: counts, jobs, workers, and the first tasks of all queues. An
    additional one watches the most recently changed task.
    """
    seen = Seen()
    async with asyncio.TaskGroup() as group:
        sockets = [(await dial(Way(url, token), "treadle bench"))[0] for _ in range(observers)]
        readers = [group.create_task(_read(socket, seen)) for socket in sockets]
        for socket in sockets:
            await socket.send(to_json({"items": _watches()}), text=True)
        newest = (await dial(Way(url, token), "treadle bench"))[0]
        sockets.append(newest)
        readers.append(group.create_task(_watch_newest(newest, seen)))
        say({"ready": observers})
        await stopped()
        for reader in readers:
            reader.cancel()
    for socket in sockets:
        await socket.close()
    return asdict(seen)


def _watches() -> list[dict[str, object]]:
    topics: list[dict[str, object]] = [{"topic": topic} for topic in ("counts", "jobs", "workers")]
    topics.append({"topic": "tasks", "window": {"order": "position", "limit": ROWS}})
    return [{"op": "watch", "n": n, "sub": f"s{n}", **topic} for n, topic in enumerate(topics, start=1)]


async def _read(socket: ClientConnection, seen: Seen) -> None:
    while True:
        try:
            frame = await socket.recv(decode=False)
        except ConnectionClosed as closed:
            raise ConnectionError(f"the server dropped an observer: {closed}") from closed
        seen.frames += 1
        seen.size += len(frame)


async def _watch_newest(socket: ClientConnection, seen: Seen) -> None:
    window = {"order": "updated", "limit": 1}
    watch = {"op": "watch", "n": 1, "sub": "newest", "topic": "tasks", "window": window}
    await socket.send(to_json({"items": [watch]}), text=True)
    shown: list[tuple[float, float]] = []
    try:
        async for frame in socket:
            now = time.time()
            for item in from_json(frame)["items"]:
                shown += [(now, _changed_at(row)) for row in item.get("rows", ())]
    finally:
        seen.ages = ages_of(shown)


def _changed_at(row: dict[str, Any]) -> float:
    """Return when a task last changed, in seconds since 1970."""
    at = row["completed_at"] or row["started_at"] or row["claimed_at"] or row["created_at"]
    return datetime.fromisoformat(at).timestamp()


def ages_of(shown: list[tuple[float, float]]) -> list[float]:
    """Return the ages in ms of what was shown, for each hundredth of a second, from (shown at, changed at) in seconds.

    What is shown ages until it is replaced. The first one is left out, since it may show something that has not changed
    for long.
    """
    return [
        (at + n / 100 - changed) * 1000
        for (at, changed), (until, _) in pairwise(shown[1:])
        for n in range(round((until - at) * 100) + 1)
    ]
