"""Observers, as dashboards are: what they get is counted, and not painted."""

import asyncio
from dataclasses import asdict, dataclass

from pydantic_core import to_json
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from treadle.bearer import Way
from treadle.bench.role import say, stopped
from treadle.dialing import dial

ROWS = 50
"""Rows of tasks that a dashboard of a usual size shows."""


@dataclass(slots=True)
class Seen:
    """What all observers together have got."""

    frames: int = 0
    size: int = 0


async def observe(url: str, token: str, *, observers: int) -> dict[str, int]:
    """Play so many dashboards, each on a socket of its own, until stopped; return the frames and their bytes.

    Each subscribes to what the main screen shows: counts, jobs, workers, and the first tasks of all queues.
    """
    seen = Seen()
    async with asyncio.TaskGroup() as group:
        sockets = [(await dial(Way(url, token), "treadle bench"))[0] for _ in range(observers)]
        readers = [group.create_task(_read(socket, seen)) for socket in sockets]
        for socket in sockets:
            await socket.send(to_json({"items": _watches()}), text=True)
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
