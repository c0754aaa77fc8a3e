"""Row E8 for executors: a server that starts knows what the one before it had given out."""

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from tests.internal.conftest import Serving
from tests.internal.site import PaperBroker
from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import RegisterJob, RegisterWorker, SweepWorkers, TakeOver
from treadle_server.engine.commands.internal import BROKER, EXECUTORS
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.engine import Engine
from treadle_server.engine.rules import OnRestart, Rules
from treadle_server.internal.process_locks import ProcessLocks

JOB = "@internal:tasks:add"


async def test_z12_e8_what_a_broker_runs_goes_on_over_a_restart_and_its_report_is_taken(
    serving: Serving, broker: PaperBroker
):
    async with serving() as dispatcher:
        task = await dispatcher.submit()
        assert await dispatcher.start(broker.claims[0]) == 200

    async with serving() as dispatcher:
        await dispatcher.pass_time(600)
        assert (await dispatcher.get(task))["status"] == "running"
        assert await dispatcher.report(broker.claims[0], "completed", result=7) == 200
        assert (await dispatcher.get(task))["result"] == 7
    assert len(broker.claims) == 1


async def test_z12_e8_what_was_not_started_is_sent_again_in_the_same_run_and_one_start_is_admitted(
    serving: Serving, broker: PaperBroker
):
    async with serving() as dispatcher:
        task = await dispatcher.submit()

    async with serving() as dispatcher:
        await dispatcher.until(task, lambda _: len(broker.claims) == 2)
        first, again = broker.claims
        assert (again["id"], again["run_id"]) == (first["id"], first["run_id"])
        assert [await dispatcher.start(again), await dispatcher.start(first)] == [200, 409]
        assert await dispatcher.report(again, "completed") == 200


async def test_what_the_last_start_had_given_out_counts_against_the_limit(serving: Serving, broker: PaperBroker):
    async with serving(concurrency=1) as dispatcher:
        await dispatcher.submit()
        await dispatcher.start(broker.claims[0])

    async with serving() as dispatcher:
        second = await dispatcher.submit()
        assert second["status"] == "pending"

        await dispatcher.report(broker.claims[0], "completed")

        await dispatcher.until(second, lambda task: task["status"] == "claimed")


async def test_an_executors_worker_that_was_removed_is_registered_again(serving: Serving, broker: PaperBroker):
    async with serving() as dispatcher:
        await dispatcher.http.delete(f"/v1/workers/{BROKER}")
        await dispatcher.sweep()

        [worker] = (await dispatcher.http.get("/v1/workers")).json()["items"]
        assert JOB in worker["jobs"]
        assert (await dispatcher.submit())["status"] == "claimed"


# What ran in a process that is gone


@pytest.fixture(params=["keep", "requeue", "backoff"])
def policy(request: pytest.FixtureRequest) -> OnRestart:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def shop(store: object, clock: FakeClock, policy: OnRestart) -> AsyncIterator[Shop]:
    """An engine whose internal tasks are given to the workers of `held_by`."""
    rules = Rules(internal_jobs=frozenset({JOB}), on_restart=policy)
    engine = Engine(store, rules, clock=clock)  # type: ignore[arg-type]
    async with engine.running():
        yield Shop(engine, job=JOB)


async def given_out(shop: Shop, worker_id: WorkerId, count: int, **options: int) -> list[Task]:
    """Return tasks that executors of their own have claimed."""
    given: list[Task] = []
    register = RegisterWorker(principal=EXECUTORS, id=worker_id, concurrency=count)
    await shop.engine.run(register)
    registered = await shop.engine.run(
        RegisterJob(
            principal=EXECUTORS, room="@internal", category="tasks", name="add", schema="{}", worker_id=worker_id,
            retain=True,
        )
    )  # fmt: skip
    slot = WorkerSlot(worker_id, frozenset({registered.job.num}), None, count, 0, 0, given.extend)
    shop.engine.open_slot(slot)
    await shop.submit(count, options=options)
    shop.engine.close_slot(slot)
    assert len(given) == count
    return given


def new_worker() -> WorkerId:
    return WorkerId(str(uuid4()))


async def test_e8_what_ran_in_a_dead_process_ends_as_the_setting_says(shop: Shop, clock: FakeClock, policy: OnRestart):
    dead = new_worker()
    again, spent = [
        (await given_out(shop, worker, 1, max_requeues=requeues, retry_base=30))[0]
        for worker, requeues in ((dead, 1), (dead, 0))
    ]
    for task in (again, spent):
        await shop.report(task, "started")

    await shop.engine.run(TakeOver(gone=[dead]))

    found = [await shop.get(task.id) for task in (again, spent)]
    expected = {
        "keep": [("running", None), ("running", None)],
        "requeue": [("pending", "Worker disconnected"), ("failed", "Worker disconnected")],
        "backoff": [("scheduled", "Worker disconnected"), ("failed", "Worker disconnected")],
    }
    assert [(task.status, task.error) for task in found] == expected[policy]
    if policy == "backoff":
        assert (found[0].due_at - clock.now()).total_seconds() == 30


async def test_e8_what_had_not_started_there_becomes_the_successors_in_the_same_run(shop: Shop):
    dead, successor = new_worker(), new_worker()
    [task] = await given_out(shop, dead, 1)

    [mine] = await shop.engine.run(TakeOver(gone=[dead], successor=successor))

    assert (mine.id, mine.run_id, mine.worker_id, mine.status) == (task.id, 0, successor, "claimed")
    assert (await shop.get(task.id)).worker_id == successor


async def test_e8_without_a_successor_it_goes_back_to_the_queue_and_costs_nothing(shop: Shop):
    dead = new_worker()
    [task] = await given_out(shop, dead, 1)

    await shop.engine.run(TakeOver(gone=[dead]))

    found = await shop.get(task.id)
    assert (found.status, found.requeue_count) == ("pending", 0)


async def test_e8_a_server_that_is_not_heard_of_loses_what_it_ran_itself_and_nothing_of_a_broker(
    shop: Shop, clock: FakeClock, policy: OnRestart
):
    silent = new_worker()
    [local] = await given_out(shop, silent, 1, max_requeues=1)
    [remote] = await given_out(shop, BROKER, 1, max_requeues=1)
    for task in (local, remote):
        await shop.report(task, "started")
    clock.advance(61)

    await shop.engine.run(SweepWorkers(60))

    after = "running" if policy == "keep" else "pending" if policy == "requeue" else "scheduled"
    assert [(await shop.get(task.id)).status for task in (local, remote)] == [after, "running"]


# How a dead process is known


def test_a_process_lock_is_taken_as_long_as_its_process_lives(tmp_path: Path):
    mine, other = ProcessLocks(tmp_path / "internal"), ProcessLocks(tmp_path / "internal")
    first, second = new_worker(), new_worker()

    mine.take(first)
    other.take(second)

    assert mine.gone() == []
    assert other.gone() == []
    mine.leave(is_done=False)
    assert other.gone() == [first]
    other.clear([first])
    assert other.gone() == []


def test_a_process_lock_that_was_left_in_order_is_forgotten_and_strange_files_are_no_process_locks(tmp_path: Path):
    process_locks = ProcessLocks(tmp_path / "internal")
    assert process_locks.gone() == []
    process_locks.take(new_worker())
    (tmp_path / "internal" / "README").touch()

    process_locks.leave(is_done=True)

    assert process_locks.gone() == []
    assert [path.name for path in (tmp_path / "internal").iterdir()] == ["README"]


async def test_a_process_that_was_killed_leaves_its_process_lock_free(tmp_path: Path):
    worker_id = new_worker()
    script = (
        "import os, pathlib, sys; from treadle_server.internal.process_locks import ProcessLocks\n"
        f"ProcessLocks(pathlib.Path({str(tmp_path)!r})).take({worker_id!r})\n"
        "print('taken', flush=True); sys.stdin.read()"
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", script), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"taken\n"
    assert ProcessLocks(tmp_path).gone() == []

    process.kill()
    await process.wait()

    assert ProcessLocks(tmp_path).gone() == [worker_id]
