"""Two servers whose transactions want the same rows lock them in one order: neither waits for the other in a circle."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from tests.engine.conftest import ADMIN, Shop, two_shops
from tests.servers.test_locks import Gate, look
from treadle.wire.ids import TaskId
from treadle_server.domain.dependencies import Need
from treadle_server.domain.tasks import Task
from treadle_server.engine import writing
from treadle_server.engine.commands import Beat, RegisterJob, Submission, Submit
from treadle_server.store.transaction import dependencies as stored
from treadle_server.store.transaction import load

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


@pytest.fixture(autouse=True)
def _each_try_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)


@pytest.fixture
async def shops(postgres_database: str) -> AsyncIterator[tuple[Shop, Shop]]:
    """One job, seen through two servers."""
    async with two_shops(postgres_database) as found:
        yield found


async def both(gate: Gate, one: list[Awaitable[Any]], other: list[Awaitable[Any]]) -> None:
    """Let the first batch stand at the gate, and go on when the second one waits for it or is done."""
    first = asyncio.gather(*one)
    await asyncio.wait_for(gate.reached.wait(), 20)
    gate.other = asyncio.gather(*other)
    await first
    await gate.other


async def claimed(shop: Shop) -> Task:
    """Return a task that a worker has."""
    worker = await shop.worker()
    await shop.submit()
    await look(shop)
    [run] = await shop.claim(worker)
    return run


def register(shop: Shop, name: str) -> Awaitable[Any]:
    """Register a job anew, with another schema."""
    job = {"room": "@global", "category": "tasks", "name": name, "schema": '{"title": "x"}'}
    return shop.engine.run(RegisterJob(principal=ADMIN, **job, replace=True, make_worker=False))


def wait_for(shop: Shop, task: Task) -> Awaitable[Any]:
    """Submit a task that is to wait for another one."""
    item = Submission(job_name=shop.job, payload="{}", content_hash=b"y", needs=[Need(TaskId(task.id))])
    return shop.engine.run(Submit(principal=ADMIN, room="@global", items=[item]))


def assert_none_was_broken_off(caplog: pytest.LogCaptureFixture) -> None:
    """Fail when a transaction was not committed at the first try."""
    assert [message for message in caplog.messages if "was faster" in message] == []


async def test_tasks_that_are_steered_and_tasks_that_are_waited_for_are_locked_together_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = shops
    a, b = await first.submit(2)
    gate = Gate(postgres_database)
    monkeypatch.setattr(stored, "tasks_needed", gate.before(stored.tasks_needed))

    with caplog.at_level("INFO"):
        one = [first.steer(b, "pause"), wait_for(first, a)]
        await both(gate, one, [second.steer(a, "pause"), wait_for(second, b)])

    assert_none_was_broken_off(caplog)


async def test_jobs_that_are_named_and_jobs_of_tasks_are_locked_together_before_the_tasks_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = shops
    other = await first.register("other")
    [a], [b] = await first.submit(), await first.submit(job=other)
    gate = Gate(postgres_database)
    monkeypatch.setattr(load, "tasks_by_id", gate.before(load.tasks_by_id))

    with caplog.at_level("INFO"):
        one = [register(first, "other"), first.steer(a, "pause")]
        await both(gate, one, [register(second, "noop"), second.steer(b, "pause")])

    assert_none_was_broken_off(caplog)


async def test_who_looks_for_orphans_waits_for_no_job_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = shops
    run = await claimed(first)
    await first.report(run, "started")
    gate = Gate(postgres_database)
    monkeypatch.setattr(writing, "_delete_orphans", gate.before(writing._delete_orphans))

    with caplog.at_level("INFO"):
        await both(gate, [first.report(run, "failed")], [register(second, "noop"), second.steer(run, "rerun")])

    assert_none_was_broken_off(caplog)


async def test_who_decides_about_a_target_has_it_before_its_tasks_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = shops
    a, b = await first.submit(2, target="printer")
    gate = Gate(postgres_database)
    monkeypatch.setattr(writing, "lock_targets", gate.before(writing.lock_targets))

    with caplog.at_level("INFO"):
        # The end of the first one lets the other be claimed, whose row the second server would have.
        await both(gate, [first.steer(b, "pause")], [second.steer(a, "cancel")])

    assert_none_was_broken_off(caplog)


async def test_a_workers_tasks_are_locked_before_it_is_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = shops
    run = await claimed(first)
    gate = Gate(postgres_database)
    monkeypatch.setattr(load, "tasks_of_workers", gate.before(load.tasks_of_workers))

    with caplog.at_level("INFO"):
        assert run.worker_id is not None
        beat = first.engine.run(Beat(principal=ADMIN, worker_id=run.worker_id))
        await both(gate, [beat], [second.report(run, "started")])

    assert_none_was_broken_off(caplog)
