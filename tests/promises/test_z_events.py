"""Events (Z16): after the commit, each once, to whom they concern."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.live.sockets import Socket
from tests.promises.problems import refused
from tests.promises.rig import Rig, worked, worker_of
from tests.promises.words import JOB
from treadle_server.engine.hub import Batch
from treadle_server.errors import StoreUnavailable

Event = dict[str, Any]


async def told(socket: Socket) -> list[Event]:
    """Return the events that have come since the last time; an answered ping shows that no more are on their way."""
    await socket.call("ping")
    pushes, socket.pushes = socket.pushes, []
    assert {push["push"] for push in pushes} <= {"events"}
    return [event for push in pushes for event in push["events"]]


def of_tasks(events: list[Event]) -> list[tuple[Any, ...]]:
    """Return the events about tasks in short."""
    updated = [e for e in events if e["type"] in {"task.updated", "task.available"}]
    return [("available",) if "task" not in e else (e["was"], e["task"]["status"]) for e in updated]


async def test_z16_each_transition_of_a_life_is_told_once_in_order(rig: Rig):
    worker = await worker_of(rig)
    observer = await rig.observer()

    await rig.root.submit(max_retries=1, retry_base=5)
    await worker.fail(await worker.begin())
    rig.advance(5)
    await rig.promote()
    await worker.complete(await worker.begin())

    assert of_tasks(await told(observer)) == [
        (None, "pending"),
        ("available",),
        ("pending", "claimed"),
        ("claimed", "running"),
        ("running", "scheduled"),
        ("scheduled", "pending"),
        ("available",),
        ("pending", "claimed"),
        ("claimed", "running"),
        ("running", "completed"),
    ]


async def test_z16_a_verbs_events_are_told_once(rig: Rig):
    await rig.root.register_job()
    observer = await rig.observer()

    task = await rig.root.submit()
    await rig.root.pause(task)
    await rig.root.resume(task)
    await rig.root.cancel(task)
    await rig.root.rerun(task)

    assert of_tasks(await told(observer)) == [
        (None, "pending"),
        ("available",),
        ("pending", "paused"),
        ("paused", "pending"),
        ("available",),
        ("pending", "cancelled"),
        ("cancelled", "pending"),
        ("available",),
    ]


async def test_z16_a_task_that_is_handed_over_at_once_tells_both_of_its_states(rig: Rig):
    worker = await worker_of(rig)
    observer = await rig.observer()
    claim = asyncio.ensure_future(worker.claim(wait=10))
    for _ in range(2):
        await rig.root.submit(delay=60)  # when the second is answered, the claim waits

    task = await rig.root.submit()
    await claim

    about = [e for e in await told(observer) if e.get("task", {}).get("id") == task["id"]]
    assert of_tasks(about) == [(None, "pending"), ("pending", "claimed")]


async def test_z16_available_is_told_when_a_task_is_due_and_not_before(rig: Rig):
    await rig.root.register_job()
    observer = await rig.observer()
    await rig.root.submit(delay=5)
    assert of_tasks(await told(observer)) == [(None, "scheduled")]

    rig.advance(5)
    await rig.promote()

    assert of_tasks(await told(observer)) == [("scheduled", "pending"), ("available",)]


async def test_z16_observers_of_a_job_or_a_room_are_told_of_theirs_alone_and_each_once(rig: Rig):
    await rig.root.register_job()
    await rig.root.register_job("sub")
    await rig.root.register_job(room="den")
    of_job, of_room, of_all, other = [
        await rig.observer(**wanted) for wanted in ({"job": JOB}, {"room": "lab"}, {}, {"room": "attic"})
    ]

    for name in (JOB, "lab:tasks:sub", "den:tasks:add"):
        await rig.root.submit(name)

    jobs = [
        [e["task"]["job_name"] for e in await told(socket) if "task" in e]
        for socket in (of_job, of_room, of_all, other)
    ]
    assert jobs == [[JOB], [JOB, "lab:tasks:sub"], [JOB, "lab:tasks:sub", "den:tasks:add"], []]


async def test_z16_a_task_in_a_shared_job_is_told_to_the_room_it_was_submitted_from(rig: Rig):
    await rig.root.register_job(room="@global")
    den, lab = await rig.observer(room="den"), await rig.observer(room="lab")

    await rig.root.submit("@global:tasks:add", room="den")

    assert of_tasks(await told(den)) == [(None, "pending"), ("available",)]
    assert await told(lab) == []


async def test_z16_changes_of_jobs_are_told(rig: Rig):
    observer = await rig.observer(job=JOB)

    founder = await rig.root.found_job(schema={})
    await rig.root.pause_queue(JOB)
    await rig.root.pause_queue(JOB, paused=False)
    await rig.root.register_job(schema={"type": "object"}, replace=True, retain=False, worker_id=founder.id)
    await founder.leave()

    events = await told(observer)
    assert {event["type"] for event in events} == {"job.updated"}
    seen = [(e["job"]["paused"], e["job"]["schema_version"], e["deleted"]) for e in events]
    assert seen == [(False, 1, False), (True, 1, False), (False, 1, False), (False, 2, False), (False, 2, True)]
    assert len({event["seq"] for event in events}) == 5


async def test_z16_what_changes_nothing_tells_nothing(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(id="01a1fca0-0000-7000-8000-000000000001")
    run = await worker.begin()
    await worker.complete(run, 1)
    observer = await rig.observer(job=JOB)

    await worker.complete(run, 1)
    await rig.root.submit(id=task["id"])
    await rig.root.register_job()
    await rig.root.pause_queue(JOB, paused=False)
    with refused("stale-run", 409):
        await worker.complete(run, 2)
    with refused("invalid-task-transition", 409):
        await rig.root.cancel(task)
    with refused("schema-conflict", 409):
        await rig.root.register_job(schema={"type": "object"})

    assert await told(observer) == []


async def test_z16_progress_logs_and_checkpoints_are_no_transitions(rig: Rig):
    worker, run = await worked(rig)
    observer = await rig.observer(job=JOB)

    await worker.progress(run, 0.5)
    await worker.log(run, "line")
    await worker.checkpoint(run, [1])
    await worker.heartbeat(run)

    assert await told(observer) == []


async def test_z16_no_event_is_sent_of_what_could_not_be_committed(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """G1, G7: the requests are told that nothing was changed."""
    await rig.root.register_job()
    task = await rig.root.submit()
    observer = await rig.observer()
    write = rig.engine.store.write

    @asynccontextmanager
    async def failing(**how: Any) -> AsyncIterator[Any]:
        async with write(**how) as tx:
            yield tx
            raise StoreUnavailable("the disk is full", retry_after=1)

    with monkeypatch.context() as patch:
        patch.setattr(rig.engine.store, "write", failing)
        with refused("store-unavailable", 503):
            await rig.root.cancel(task)
        with refused("store-unavailable", 503):
            await rig.root.submit()

    assert await told(observer) == []
    assert (await rig.root.get(task))["status"] == "pending"
    assert (await rig.root.cancel(task))["status"] == "cancelled"
    assert of_tasks(await told(observer)) == [("pending", "cancelled")]


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_z16_what_an_event_tells_can_be_read_by_anybody(rig: Rig):
    """G7: another process reads the new state at the moment of the event."""
    worker = await worker_of(rig)
    path = rig.engine.store.url.database  # type: ignore[attr-defined]
    pairs = []

    def listen(batch: Batch) -> None:
        with sqlite3.connect(path) as other:
            for task in {change.task.id: change.task for change in batch.tasks}.values():
                row = other.execute("SELECT status FROM tasks WHERE seq = ?", (task.seq,)).fetchone()
                pairs.append((str(task.status), row and row[0]))
        other.close()

    rig.engine.hub.listen(listen)
    await rig.root.submit()
    await worker.complete(await worker.begin())

    assert [told for told, _ in pairs] == ["pending", "claimed", "running", "completed"]
    assert all(told == read for told, read in pairs)
