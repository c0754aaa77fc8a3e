"""A worker whose connection breaks is told to be away at once, long before a heartbeat is missed."""

import asyncio
import itertools
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.live.conftest import Open
from tests.live.sockets import connected
from tests.live.test_feeds import Mirror
from tests.live.test_worker_ops import held_by
from treadle.wire.ids import WorkerId
from treadle_server.domain.jobs import Worker
from treadle_server.engine.hub import Hub
from treadle_server.live import worker_ops
from treadle_server.services import absences
from treadle_server.services.absences import Absences
from treadle_server.testing import Served, serve


async def test_a_worker_whose_socket_broke_is_away_until_it_is_back(served: Served, opened: Open):
    observer, worker = await opened(), await held_by(opened)
    mirror = await Mirror(observer, "w").watch("workers")
    [row] = mirror.rows.values()
    assert row["away_since"] is None

    await worker.connection.close()
    await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"])
    assert mirror.rows[row["id"]]["state"] == "online"

    back = await opened()
    answer = await back.call("open", worker={"id": row["id"], "name": "w", "concurrency": 1}, links=[])
    assert answer["worker"]["away_since"] is None
    await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"] is None)


async def test_a_worker_is_back_whose_older_session_ends_while_its_newer_one_is_opened(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    observer, worker = await opened(), await held_by(opened)
    mirror = await Mirror(observer, "w").watch("workers")
    [row] = mirror.rows.values()
    await worker.connection.close()
    await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"])
    waits, goes = [asyncio.Event() for _ in range(2)], [asyncio.Event() for _ in range(2)]
    numbers, answered = itertools.count(), worker_ops._opened

    async def slow(*args: Any) -> dict[str, Any]:
        n = next(numbers)
        waits[n].set()
        await goes[n].wait()
        return await answered(*args)

    monkeypatch.setattr(worker_ops, "_opened", slow)
    older, newer = await opened(), await opened()
    again = {"worker": {"id": row["id"], "name": "w", "concurrency": 1}, "links": []}
    async with asyncio.TaskGroup() as group:
        cut = group.create_task(older.call("open", **again))
        await waits[0].wait()
        back = group.create_task(newer.call("open", **again))
        await waits[1].wait()
        await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"] is None)
        cut.cancel()
        await older.connection.close()
        goes[0].set()
        await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"])
        goes[1].set()
        await back

    await mirror.until(lambda seen: seen.rows[row["id"]]["away_since"] is None)


async def test_a_worker_that_says_goodbye_is_not_away(opened: Open):
    observer, worker = await opened(), await held_by(opened)
    mirror = await Mirror(observer, "w").watch("workers")

    await worker.call("close")
    await worker.connection.close()

    await mirror.until(lambda seen: not seen.rows)


async def test_a_server_that_was_started_anew_knows_who_has_not_come_back(tmp_path: Path):
    url = f"sqlite:///{tmp_path / 'treadle.db'}"
    async with serve(url, data_dir=tmp_path) as served, connected(served) as worker:
        await worker.call("open", worker={"name": "w"})

    async with serve(url, data_dir=tmp_path) as served, connected(served) as observer:
        mirror = await Mirror(observer, "w").watch("workers")
        [row] = mirror.rows.values()

    assert row["away_since"]


async def test_a_lost_worker_is_removed_by_an_observer(opened: Open):
    observer, worker = await opened(), await held_by(opened)
    mirror = await Mirror(observer, "w").watch("workers")
    await worker.connection.close()

    await observer.call("remove_worker", id=next(iter(mirror.rows)))

    await mirror.until(lambda seen: not seen.rows)


def named(stream: str) -> Hub:
    hub = Hub()
    hub.stream = stream
    return hub


def test_no_more_workers_are_remembered_than_that(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(absences, "MOST", 2)
    at = datetime.now(UTC)
    found = [Worker(WorkerId(str(n)), "mara", created_at=at, last_heartbeat=at, home="s") for n in range(3)]
    away = Absences(named("s"), None)

    for one in found:
        away.begin(one.id, at)

    assert [away.since(one) is not None for one in found] == [False, True, True]


def test_what_another_server_told_holds_while_the_worker_is_its_own_and_until_something_is_missed():
    at = datetime.now(UTC)
    worker = Worker(WorkerId("w"), "mara", created_at=at, last_heartbeat=at, home="other")
    away, touched = Absences(named("here"), None), []
    away.on_heard = lambda: touched.append(1)

    away.hear("other", {worker.id: at}, set())
    assert (away.since(worker), len(touched)) == (at, 1)
    away.hear("third", {worker.id: at}, set())
    assert away.since(worker) is None
    away.hear("other", {worker.id: at}, set())
    away.hear("other", {}, {worker.id})
    assert away.since(worker) is None
    away.hear("other", {worker.id: at}, set())
    away.forget_heard()
    assert away.since(worker) is None
    away.hear("other", {worker.id: at}, set())
    assert away.end(worker.id)
    assert away.since(worker) is None
    away.hear("other", {}, set())
    assert len(touched) == 6
