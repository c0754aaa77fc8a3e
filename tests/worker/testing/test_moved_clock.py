"""A server's time that tests move: what an hour brings is there at once."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.clients import client_at
from treadle import Client, Limit, Options, Retry, SyncClient, task
from treadle_server.engine.commands import SweepWorkers
from treadle_server.testing import MovableClock, serve, serve_in_thread

runs: list[str] = []


@task(retry_base=600, max_retries=1)
def fragile(name: str) -> str:
    runs.append(name)
    if runs.count(name) == 1:
        raise Retry
    return name


@task
def hourly() -> None: ...


def test_what_is_delayed_is_due_when_its_time_was_moved_past(
    treadle_client: SyncClient, treadle_worker: Any, treadle_clock: MovableClock
) -> None:
    worker = treadle_worker(fragile)
    treadle_client.register(fragile)
    handle = treadle_client.submit(fragile.bind("later"), options=Options(delay=3600))

    assert worker.run_all() == []
    treadle_clock.move(timedelta(minutes=59))
    assert worker.run_all() == []
    treadle_clock.move(60)
    assert [item.status for item in worker.run_all()] == ["scheduled"]
    treadle_clock.move(599)
    assert worker.run_all() == []
    treadle_clock.move(1)
    assert [item.status for item in worker.run_all()] == ["completed"]
    assert handle.result(timeout=30) == "later"
    assert treadle_clock.now() - datetime.now(UTC) > timedelta(minutes=69)


@task(limits=[Limit("slow", rate=(2, 60))])
def seldom(number: int) -> int:
    return number


def test_what_waits_for_a_rate_goes_on_when_its_time_was_moved_past(
    treadle_client: SyncClient, treadle_worker: Any, treadle_clock: MovableClock
) -> None:
    worker = treadle_worker(seldom)
    treadle_client.register(seldom)
    treadle_client.submit_many([seldom.bind(number) for number in range(5)])

    found = [worker.run_all()]
    for _ in range(2):
        treadle_clock.move(60)
        found.append(worker.run_all())

    assert [[item.result for item in ended] for ended in found] == [[0, 1], [2, 3], [4]]


def test_a_schedule_makes_one_task_for_an_hour_and_one_for_a_day(
    treadle_client: SyncClient, treadle_worker: Any, treadle_clock: MovableClock
) -> None:
    worker = treadle_worker(hourly)
    assert worker.run_all() == []
    treadle_client.set_schedule("hourly", job=hourly.full_name, interval=3600)
    for hours in (1, 24):
        treadle_clock.move(timedelta(hours=hours))
        assert [item.status for item in worker.run_all()] == ["completed"]
    assert len(list(treadle_client.list())) == 2


def test_what_a_worker_that_is_gone_has_claimed_runs_again_when_its_lease_is_over(
    treadle_server: Any, treadle_client: SyncClient, treadle_worker: Any, treadle_clock: MovableClock
) -> None:
    treadle_client.register(fragile)
    handle = treadle_client.submit(fragile.bind("lost"), options=Options(max_requeues=1))
    gone = treadle_worker(fragile)
    link = gone._runner.run(gone._opened_link())
    assert [claim["run_id"] for claim in gone._runner.run(link.claim(1, wait=0))] == [0]

    other = treadle_worker(fragile)
    treadle_clock.move(treadle_server.settings.lease_seconds - 5)
    assert other.run_all() == []
    treadle_clock.move(10)
    runs.append("lost")
    assert [item.status for item in other.run_all()] == ["completed"]
    assert handle.get().run_id == 1


async def test_a_coroutine_has_a_client_of_the_same_server(treadle_async_client: Client, treadle_worker: Any) -> None:
    async with treadle_async_client as client:
        await client.register(fragile)
        handle = await client.submit(fragile.bind("both"), options=Options(delay=0))
        runs.append("both")
        assert len(await asyncio.to_thread(treadle_worker(fragile).run_all)) == 1
        assert await handle.result(timeout=30) == "both"


async def test_a_server_of_the_same_thread_is_awaited_and_takes_no_worker_for_lost() -> None:
    clock = MovableClock()
    async with serve(clock=clock) as served, client_at(served.url, served.headers) as http:
        job = {"category": "tasks", "name": "any", "schema": {}}
        assert (await http.put("/v1/rooms/lab/jobs", json=job)).json()["worker_id"]
        before = clock.monotonic()
        with pytest.raises(RuntimeError, match=r"await clock\.moved"):
            clock.move(600)
        await clock.moved(600)
        assert clock.monotonic() >= before + 600
        assert await served.engine.run(SweepWorkers(60)) == []


def test_a_clock_does_not_go_back_and_has_a_server() -> None:
    clock = MovableClock()
    with pytest.raises(RuntimeError, match="pass it to serve"):
        clock.move(1)
    with serve_in_thread(clock=clock), pytest.raises(ValueError, match="forward, not by -1 s"):
        clock.move(-1)
    with pytest.raises(RuntimeError, match="pass it to serve"):
        clock.move(1)
