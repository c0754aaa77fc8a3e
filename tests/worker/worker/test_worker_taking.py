"""What a worker takes, and how little it says when there is nothing to take."""

import asyncio
import json
import logging
from typing import Any

import pytest

from tests.worker.fakes import FakeServer, fake_server
from treadle import Client, Options, Task, Worker, task
from treadle.wire.workers import IDLE_BEAT_SECONDS
from treadle.worker.lease import Leases

pytestmark = pytest.mark.anyio


@task
async def noop(n: int = 0) -> int:
    return n


@task(name="other")
async def other(n: int = 0) -> int:
    return -n


async def test_an_idle_worker_sends_nothing_but_a_heartbeat_each_15_seconds_t10(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Time passes a hundred times as fast for the heartbeats; the frames of ten idle intervals are counted."""
    fast = 100
    monkeypatch.setattr("treadle.worker.lease.IDLE_BEAT_SECONDS", IDLE_BEAT_SECONDS / fast)
    monkeypatch.setattr("treadle.worker.lease.BUSY_BEAT_SECONDS", 2 / fast)
    beats = asyncio.Queue[float]()
    loop = asyncio.get_running_loop()

    def answer(item: dict[str, Any]) -> Any:
        if item["op"] == "beat":
            beats.put_nowait(loop.time())
        return {"worker": {"id": "w"}, "answers": []}

    async with fake_server(answer) as fake, asyncio.TaskGroup() as group:
        worker = Worker([noop], url=fake.url, token="t", drain_grace=0)
        began = loop.time()
        group.create_task(worker.run_async())
        await worker.ready.wait()
        for _ in range(10):
            last = await beats.get()
        said = [item["op"] for item in _items(fake)]
        worker.stop()

    assert said == ["open"] + ["beat"] * 10
    assert last - began >= 10 * IDLE_BEAT_SECONDS / fast


async def test_an_idle_worker_beats_as_often_as_the_server_says_when_it_opens() -> None:
    """A server that loses its workers after 10 s lost idle ones again and again."""
    beats = asyncio.Queue[None]()

    def answer(item: dict[str, Any]) -> Any:
        if item["op"] == "beat":
            beats.put_nowait(None)
            return {}
        return {"worker": {"id": "w", "idle_beat_seconds": 0.1}}

    async with fake_server(answer) as fake, asyncio.TaskGroup() as group:
        worker = Worker([noop], url=fake.url, token="t", drain_grace=0)
        group.create_task(worker.run_async())
        async with asyncio.timeout(12):  # less than the 15 s of a server that says nothing
            for _ in range(3):
                await beats.get()
        worker.stop()


def test_each_heartbeat_s_answer_may_say_another_pace_and_with_a_run_it_is_never_slower() -> None:
    leases = Leases(lambda _: asyncio.sleep(0, {}))
    assert (leases.idle_beat, leases.pace) == (IDLE_BEAT_SECONDS, 2)

    leases.note({"idle_beat_seconds": 0.5}, sent=0)

    assert (leases.idle_beat, leases.pace) == (0.5, 0.5)


def _items(fake: FakeServer) -> list[dict[str, Any]]:
    return [item for frame in fake.frames for item in frame if item["op"] != "hello"]


def test_the_heartbeat_of_an_idle_worker_is_small_t10() -> None:
    leases = Leases(lambda _: asyncio.sleep(0, {}))

    assert len(json.dumps(leases.body())) < 20


async def test_a_worker_takes_the_jobs_it_was_given_only_and_the_higher_priority_first_e2(
    client: Client, either: Any
) -> None:
    """E2."""
    order: list[int] = []

    @task(name="noop")
    async def serving(n: int = 0) -> int:
        order.append(n)
        return n

    low, high = await client.submit_many([serving.bind(1), serving.bind(2)])
    left = await client.submit(other.bind(3), options=Options(priority=100))
    await client.edit(high.id, priority=5)
    async with either(serving, concurrency=1):
        assert [await handle.result(timeout=20) for handle in (low, high)] == [1, 2]
        assert await left.status() == "pending"

    assert order == [2, 1]


async def test_a_worker_with_a_minimum_asks_for_more_only_below_it_e6(client: Client, working: Any, until: Any) -> None:
    """E6: with 4 at once and a minimum of 2, nothing is taken while 2 run; below that, as many as there is room for."""
    gates = [asyncio.Event() for _ in range(8)]
    began: list[int] = []

    @task
    async def waits(n: int) -> None:
        began.append(n)
        await gates[n].wait()

    handles = await client.submit_many([waits.bind(n) for n in range(8)])

    async def took(count: int) -> None:
        async def have() -> bool:
            return len(began) == count

        await until(have)

    async with working(waits, concurrency=4, min_concurrency=2):
        await took(4)
        gates[0].set()
        gates[1].set()
        for handle in handles[:2]:
            await handle.result(timeout=20)
        assert len(began) == 4
        gates[2].set()
        await handles[2].result(timeout=20)
        await took(7)
        for gate in gates:
            gate.set()
        for handle in handles[3:]:
            await handle.result(timeout=20)

    assert began == list(range(8))


async def test_the_weight_that_runs_stays_within_the_concurrency_and_what_is_too_heavy_is_left_for_another_e5(
    client: Client, either: Any
) -> None:
    """E5: the heavier one at the head is waited for; one heavier than the whole worker runs on a bigger one."""
    running = most = 0

    @task
    async def heavy(n: int, weight: int) -> int:
        nonlocal running, most
        running += weight
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= weight
        return n

    weights = [1, 3, 2, 3, 1, 2, 3]
    handles = [
        await client.submit(heavy.bind(n, weight), options=Options(weight=weight)) for n, weight in enumerate(weights)
    ]
    giant = await client.submit(heavy.bind(99, 4), options=Options(weight=4, priority=9))
    async with either(heavy, concurrency=3):
        assert [await handle.result(timeout=20) for handle in handles] == list(range(7))
        assert await giant.status() == "pending"
        assert most == 3

        async with either(heavy, concurrency=4):
            assert await giant.result(timeout=20) == 99


def a_long_one() -> tuple[Task[[], str], asyncio.Event, asyncio.Event]:
    """Return a task with what says that it has begun, and what lets it end."""
    begun, release = asyncio.Event(), asyncio.Event()

    @task
    async def last() -> str:
        begun.set()
        await release.wait()
        return "done"

    return last, begun, release


async def test_a_worker_that_is_asked_to_drain_ends_what_it_runs_and_itself_l10(
    client: Client, either: Any, until: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """It hears of it by a push, and over plain HTTP with its next heartbeat."""
    caplog.set_level(logging.INFO, logger="treadle.worker")
    last, begun, release = a_long_one()

    async with either(last, noop, concurrency=3, drain_grace=20) as worker:
        running = await last.submit()
        await begun.wait()
        assert (await client.drain_worker(worker.id or "")).state == "draining"
        await until(lambda: "the server asked the worker to drain" in caplog.text)
        late = await noop.submit(1)
        release.set()
        assert await running.result(timeout=20) == "done"

        async def is_gone() -> bool:
            return (await client.workers()).total == 0

        await until(is_gone)

    assert {run.reason for run in await late.runs()} <= {"returned"}
    assert await late.status() == "pending"


async def test_a_draining_worker_on_plain_http_claims_no_more_e13(client: Client, either: Any, until: Any) -> None:
    """E13: what is submitted while it drains has no run at all, over HTTP too, where it would claim by itself."""
    last, begun, release = a_long_one()

    async with either(last, noop, concurrency=3, drain_grace=20) as worker:
        running = await last.submit()
        await begun.wait()
        worker.stop()

        async def is_draining() -> bool:
            return (await client.worker(worker.id or "")).state == "draining"

        await until(is_draining)
        late = [await noop.submit(n) for n in range(3)]
        release.set()
        assert await running.result(timeout=20) == "done"

    # A claim that was waiting at the server when the drain began may be answered once; it is handed back at no cost.
    runs = [run for handle in late for run in await handle.runs()]
    assert {run.reason for run in runs} <= {"returned"}
    assert len(runs) <= 3
    assert [await handle.status() for handle in late] == ["pending"] * 3
