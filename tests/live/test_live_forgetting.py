"""What a server keeps of tasks that have ended: nothing beyond the last few, however long it runs and is looked at."""

import gc
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.sockets import JOB, Socket, connected, ref, submit
from treadle_server.engine import version_order
from treadle_server.live import events
from treadle_server.services import recent
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

ROUND = 60
KEPT = 20
"""Transitions that are kept for those who come back, fewer than a round has."""

STRAY = 5
"""Ids that may stay with the last statements and answers: a bounded number, whatever comes."""


async def work(client: Socket, worker: Socket, observer: Socket) -> list[bytes]:
    """Submit a round of tasks, let them end in each way, and return their ids as bytes: the test is to keep no text."""
    tasks = await submit(client, ROUND, wait=True)
    ended = 0
    while ended < ROUND:
        claims = (await worker.pushed("claim"))["tasks"]
        await worker.call("beat", tasks=[ref(claim) for claim in claims])
        reports: list[dict[str, Any]] = [
            {**ref(claim), "kind": "failed" if n % 5 == 0 else "completed", "starts": True}
            for n, claim in enumerate(claims, ended)
        ]
        await worker.call("reports", reports=reports)
        ended += len(claims)
    told = 0
    while told < ROUND:
        told += len((await client.pushed("result"))["tasks"])
    for socket in (client, worker, observer):
        socket.pushes.clear()
    return [task["id"].encode() for task in tasks]


def still_there(ids: list[bytes]) -> set[str]:
    """Return those of the ids that an object of Treadle's holds, itself or in what it keeps things in."""
    gc.collect()
    wanted = set(ids)
    # Only what is whole is looked into: what a library's C code is just making, the collector lists too.
    waiting: list[object] = [one for one in gc.get_objects() if is_ours(one)]
    known = {id(one) for one in waiting}
    found = set()
    while waiting:
        for part in parts(waiting.pop()):
            if type(part) is str and len(part) == 36 and part.encode() in wanted:
                found.add(part)
            elif id(part) not in known and (is_ours(part) or isinstance(part, HOLDERS)):
                known.add(id(part))
                waiting.append(part)
    return found


HOLDERS = (dict, list, tuple, set, frozenset, deque)


def is_ours(one: object) -> bool:
    return str(type(one).__module__).partition(".")[0] in {"treadle", "treadle_server"}


def parts(one: object) -> Iterator[object]:
    """What a container holds, or the attributes that an object has."""
    if isinstance(one, HOLDERS):
        yield from list(one)
        if isinstance(one, dict):
            yield from list(one.values())
    yield from list(getattr(one, "__dict__", {}).values())
    for kind in type(one).__mro__:
        names = kind.__dict__.get("__slots__", ())
        yield from (getattr(one, name, None) for name in ([names] if isinstance(names, str) else names))


async def test_nothing_is_kept_of_tasks_that_ended_beyond_the_last_few(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "KEPT", KEPT)
    monkeypatch.setattr(recent, "MOST_RECENT", KEPT)
    monkeypatch.setattr(version_order, "MOST", KEPT)
    async with (
        serve(database_url, data_dir=tmp_path / "data") as served,
        connected(served) as client,
        connected(served) as worker,
        connected(served) as observer,
    ):
        await observer.call("every", on=True)
        for n, topic in enumerate(("counts", "jobs", "workers")):
            await observer.call("watch", sub=f"s{n}", topic=topic)
        await worker.call("open", worker={"concurrency": 7}, jobs=[JOB], prefetch=0)
        await work(client, worker, observer)
        ids = await work(client, worker, observer)
        await work(client, worker, observer)

        assert len(still_there(ids)) <= STRAY
