"""A short storm at the seams, in this process, on each database: nothing is lost, nothing is twice (G1 to G6)."""

import asyncio
import random
import sys
from pathlib import Path

import pytest

from tests.clients import client_at
from tests.history.checker import check
from tests.history.recorder import of_client
from tests.history.records import TERMINAL, History, marks_in
from tests.history.tables import read_steps, read_tables
from tests.storm.journeys import JOURNEYS, prepare
from tests.storm.labour import labour, toil
from tests.storm.load import Load
from tests.storm.observers import Follower
from tests.storm.seams import FaultyStore, SteppingClock, torment
from tests.storm.site import ROOM
from tests.storm.wishes import CAPS, LIMITS_OF_JOBS
from tests.worker.conftest import working_at
from treadle import Client
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

SECONDS = 3.0
"""How long faults come; the session `chaos` has minutes."""


async def _calm(served: Served, load: Load, follower: Follower) -> None:
    """Wait until all has ended, and whoever watches knows it; say what has not when that takes a minute."""
    counts: dict[str, int] = {}
    differing: list[tuple[str, object, object]] = []
    try:
        async with asyncio.timeout(60), client_at(served.url, served.headers) as http:
            while not counts or any(n for status, n in counts.items() if status not in TERMINAL):
                page = (await http.get("/v1/tasks", params={"status": "paused", "limit": 500})).json()["items"]
                load.paused |= {task["id"] for task in page}
                page = (await http.get("/v1/tasks", params={"status": "blocked", "limit": 500})).json()["items"]
                load.blocked |= {task["id"] for task in page}
                await load.resume()
                counts = (await http.get("/v1/stats")).json()["counts"]
                await asyncio.sleep(0.1)
            while True:
                page = (await http.get(f"/v1/rooms/{ROOM}/tasks", params={"limit": 500})).json()["items"]
                known = {one["id"]: (one["status"], one["version"]) for one in page if one["room_id"] == ROOM}
                seen = follower.states
                differing = [(one, known.get(one), seen.get(one)) for one in sorted({*known, *seen})]
                differing = [one for one in differing if one[1] != one[2]]
                if not differing:
                    return
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"after a minute there are {counts}, and not as they were told {differing}") from None


async def test_a_short_storm_at_the_seams_loses_and_doubles_nothing(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal, seed = tmp_path / "journal", random.randrange(sys.maxsize)
    print(f"seed {seed}")
    monkeypatch.setenv("TREADLE_TEST_JOURNAL", str(journal))
    monkeypatch.setenv("TREADLE_TEST_NAME", "worker")
    chance, clock, history = random.Random(seed), SteppingClock(), History()
    async with serve(database_url, clock=clock, data_dir=tmp_path / "data", sweeper_interval_seconds=0.5) as served:
        store = FaultyStore(served.engine.store, chance)
        follower = Follower([served.url], served.headers)
        async with (
            working_at(served.url, served.token, labour, toil, *JOURNEYS, concurrency=20),
            Client(served.url, served.token) as client,
            asyncio.TaskGroup() as group,
        ):
            await prepare(client)
            load = Load(of_client("client", client, history.said), chance, rate=150, backlog=int)
            following = group.create_task(follower.run())
            asking = [group.create_task(work()) for work in (load.submit, load.steer)]
            await torment(store, clock, chance, SECONDS, lambda: load.submitted >= 200 and store.faults.total() >= 10)
            load.is_over = True
            await asyncio.wait(asking)
            await _calm(served, load, follower)
            following.cancel()

    history.marks = list(marks_in(journal))
    history.tasks, history.runs = await read_tables(database_url)
    history.steps, history.eras = await read_steps(database_url), clock.eras
    history.caps, history.limits_of_jobs = CAPS, LIMITS_OF_JOBS
    history.observed = {"follower": follower.states}
    history.scopes = {"follower": {row.id for row in history.tasks if row.room == ROOM}}
    print(f"{len(history.tasks)} tasks, {len(history.said)} requests, {dict(store.faults)}")
    assert check(history) == []
