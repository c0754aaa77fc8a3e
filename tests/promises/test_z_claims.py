"""Claims, workers, and what becomes of a worker's tasks when it goes (Z9, Z10, Z11)."""

import asyncio
import sqlite3
from types import SimpleNamespace
from typing import Any

import pytest

from tests.api.rooms import until
from tests.live.sockets import connected
from tests.promises.over_socket import SocketUser, SocketWorker, asked
from tests.promises.problems import refused, told
from tests.promises.rig import Rig, over_http, over_socket, worked, worker_of
from tests.promises.words import JOB, Task
from treadle_server.store.sqlite import writer

NOBODY = "00000000-0000-7000-8000-000000000000"
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


async def test_z9_the_oldest_is_claimed_first(rig: Rig):
    worker = await worker_of(rig)
    tasks = []
    for _ in range(4):
        tasks.append(await rig.root.submit())
        rig.advance(1)

    claimed = []
    for _ in tasks:
        run = await worker.take()
        claimed.append(run["id"])
        await worker.start(run)
        await worker.complete(run)

    assert claimed == [task["id"] for task in tasks]
    assert await worker.claim() == []


async def test_z9_twenty_claims_at_once_share_ten_tasks_without_overlap(rig: Rig):
    """G2: the update is guarded by the status; ten get a task, ten get none."""
    await rig.root.register_job()
    workers = [await rig.root.register_worker(JOB) for _ in range(20)]
    tasks = await rig.root.submit_many(*({"job": JOB} for _ in range(10)))

    claims = await asyncio.gather(*(worker.claim() for worker in workers))

    claimed = [task["id"] for claim in claims for task in claim]
    assert sorted(claimed) == sorted(task["id"] for task in tasks)
    assert sum(not claim for claim in claims) == 10
    for worker, claim in zip(workers, claims, strict=True):
        for task in claim:
            assert (await rig.root.get(task))["worker_id"] == worker.id


async def test_z9_a_worker_claims_from_the_jobs_it_is_linked_to_alone(rig: Rig):
    await rig.root.register_job()
    await rig.root.register_job("sub")
    await rig.root.register_job(room="den")
    worker = await rig.root.register_worker("lab:tasks:sub")
    await rig.root.submit()
    await rig.root.submit("den:tasks:add")

    assert await worker.claim() == []

    task = await rig.root.submit("lab:tasks:sub")
    assert (await worker.take())["id"] == task["id"]


@over_http
async def test_z9_an_unknown_worker_is_not_found_and_anothers_is_forbidden(rig: Rig):
    alice, bob = await rig.user("alice"), await rig.user("bob")
    await alice.register_job()
    worker = await alice.register_worker(JOB)
    await alice.submit()

    with refused("worker-not-found", 404):
        await type(worker)(alice, NOBODY).claim()
    with refused("forbidden", 403):
        await type(worker)(bob, worker.id).claim()

    assert len(await worker.claim()) == 1


@over_socket
async def test_z9_a_session_without_a_worker_and_one_of_anothers_are_refused(rig: Rig):
    alice, bob = await rig.user("alice"), await rig.user("bob")
    await alice.register_job()
    worker = await alice.register_worker(JOB)
    assert isinstance(bob, SocketUser)

    with refused("worker-not-found", 404):
        await asked(bob.socket, "beat")
    with refused("forbidden", 403):
        await asked(bob.socket, "open", worker={"id": worker.id}, links=[JOB])


@pytest.mark.parametrize("limit", ["lease", "start timeout"])
async def test_z9_a_claim_whose_answer_was_lost_comes_back(rig: Rig, limit: str):
    """It is committed, and the worker knows nothing of it: its lease ends, or it is never started."""
    await rig.root.register_job()
    deaf, other = await rig.root.register_worker(JOB), await rig.root.register_worker(JOB)
    times = {"lease_seconds": 20, "start_timeout": 600} if limit == "lease" else {"start_timeout": 20}
    task = await rig.root.submit(max_requeues=1, **times)
    lost = await deaf.take()
    assert await other.claim() == []

    rig.advance(19)
    await deaf.heartbeat(every=limit != "lease")
    await rig.sweep()
    assert await other.claim() == []
    rig.advance(2)
    await rig.sweep()

    again = await other.take()
    assert (again["id"], again["run_id"]) == (task["id"], 1)
    [first, _] = await rig.root.runs(task)
    assert (first["status"], first["reason"]) == ("exception", "claim-expired" if limit == "lease" else "start-timeout")
    with refused("stale-run", 409):
        await deaf.start(lost)


@over_http
async def test_z9_a_client_that_is_gone_before_its_claim_is_answered_has_claimed_nothing(rig: Rig):
    worker = await worker_of(rig)
    claim = asyncio.ensure_future(worker.claim(wait=20))
    await until(lambda: rig.engine.dispatcher._waiting)

    claim.cancel()
    await until(lambda: not rig.engine.dispatcher._waiting)
    task = await rig.root.submit()

    assert (await rig.root.get(task))["status"] == "pending"
    assert (await worker.take())["id"] == task["id"]


def locked(rig: Rig) -> sqlite3.Connection:
    """Take the write lock as another process would."""
    other = sqlite3.connect(rig.engine.store.url.database, isolation_level=None)  # type: ignore[attr-defined]
    other.execute("BEGIN IMMEDIATE")
    return other


@on_sqlite
async def test_z9_a_claim_waits_while_another_process_writes(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    worker = await worker_of(rig)
    task = await rig.root.submit()
    asked_twice = asyncio.Event()
    lock = writer._lock

    async def watched(connection: Any) -> None:
        asked_twice.set()
        await lock(connection)

    monkeypatch.setattr(writer, "_lock", watched)
    other = locked(rig)

    claim = asyncio.ensure_future(worker.claim())
    await asked_twice.wait()
    assert not claim.done()
    other.execute("ROLLBACK")
    other.close()

    assert [one["id"] for one in await claim] == [task["id"]]


@on_sqlite
async def test_z9_a_database_that_stays_locked_is_said_to_be_so(rig: Rig, monkeypatch: pytest.MonkeyPatch):
    """503 with Retry-After, and nothing is changed; afterwards all goes on."""
    worker = await worker_of(rig)
    task = await rig.root.submit()
    monkeypatch.setattr(writer, "TRIES", 2)
    other = locked(rig)

    with refused("store-unavailable", 503) as problems:
        await worker.claim()
    answer = await rig.root.http.post(f"/v1/rooms/lab/tasks/{JOB}")
    other.execute("ROLLBACK")
    other.close()

    assert "locked" in problems[0].detail
    assert (answer.status_code, int(answer.headers["retry-after"]) > 0) == (503, True)
    assert (await rig.root.get(task))["status"] == "pending"
    assert (await worker.take())["id"] == task["id"]


async def test_z9_a_locked_database_is_asked_ten_times_with_growing_pauses(monkeypatch: pytest.MonkeyPatch):
    """`base * 2**n * (0.5 + random)` from 10 ms."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(writer, "asyncio", SimpleNamespace(sleep=sleep))
    holder = sqlite3.connect("file:z9?mode=memory&cache=shared", uri=True, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    asking = sqlite3.connect("file:z9?mode=memory&cache=shared", uri=True, isolation_level=None, timeout=0)

    with pytest.raises(writer.OperationalError, match="locked"):
        await writer._lock(asking)

    asking.close()
    holder.close()
    assert len(pauses) == 9
    for n, pause in enumerate(pauses):
        assert 0.005 * 2**n <= pause < 0.015 * 2**n


async def test_z10_a_worker_registers_beats_and_leaves(rig: Rig):
    worker = await worker_of(rig, name="w", group="g", concurrency=3, version="1.2")

    seen = await rig.root.worker(worker.id)
    assert [seen[name] for name in ("name", "group", "concurrency", "version", "owner")] == [
        "w",
        "g",
        3,
        "1.2",
        "admin",
    ]
    assert (seen["jobs"], seen["running"], seen["heartbeat_age"]) == ([JOB], [], 0)
    rig.advance(30)
    assert (await rig.root.worker(worker.id))["heartbeat_age"] == 30
    beat = await worker.heartbeat()
    assert beat["heartbeat_age"] == 0
    assert beat["last_heartbeat"] == rig.clock.at.isoformat().replace("+00:00", "Z")

    await worker.leave()

    with refused("worker-not-found", 404):
        await rig.root.worker(worker.id)
    assert (await rig.root.job())["workers"] == []


@over_http
async def test_z10_a_job_registered_without_a_worker_makes_one(rig: Rig):
    alice = await rig.user("alice")
    body = {"category": "tasks", "name": "add"}

    made = told(await alice.http.put("/v1/rooms/lab/jobs", json=body))

    worker = await rig.root.worker(made["worker_id"])
    assert (worker["owner"], worker["jobs"]) == ("alice", [JOB])
    again = told(await alice.http.put("/v1/rooms/lab/jobs", json={**body, "worker_id": made["worker_id"]}))
    assert (again["worker_id"], again["workers"]) == (made["worker_id"], [made["worker_id"]])


async def test_z10_a_worker_id_that_is_not_the_users_is_not_found(rig: Rig):
    """404 for both: whether another user has such a worker is not told."""
    alice, bob = await rig.user("alice"), await rig.user("bob")
    worker = await alice.register_worker()

    for worker_id in (worker.id, NOBODY):
        with refused("worker-not-found", 404):
            await bob.register_job(worker_id=worker_id)

    assert told(await rig.root.http.get("/v1/rooms/lab/jobs"))["total"] == 0
    assert (await alice.register_job(worker_id=worker.id))["workers"] == [worker.id]


@over_http
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_z10_only_its_owner_and_a_superuser_touch_a_worker(rig: Rig, method: str):
    alice, bob = await rig.user("alice"), await rig.user("bob")
    worker = await alice.register_worker()

    with refused("forbidden", 403):
        told(await bob.http.request(method, f"/v1/workers/{worker.id}"))
    with refused("worker-not-found", 404):
        told(await bob.http.request(method, f"/v1/workers/{NOBODY}"))

    assert (await rig.root.http.request(method, f"/v1/workers/{worker.id}")).is_success


async def lose(rig: Rig) -> None:
    """Let the time pass in which a worker must be heard of."""
    rig.advance(61)
    await rig.sweep()


async def test_z11_the_tasks_of_a_stale_worker_fail_as_disconnected(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(lease_seconds=3600)
    await worker.begin()

    await lose(rig)

    failed = await rig.root.get(task)
    assert [failed[name] for name in ("status", "error", "worker_id")] == ["failed", "Worker disconnected", worker.id]
    [run] = await rig.root.runs(task)
    assert [run[name] for name in ("status", "error", "worker_id")] == ["exception", "Worker disconnected", worker.id]


async def test_z11_within_its_budget_the_task_of_a_stale_worker_is_requeued(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(lease_seconds=3600, max_requeues=1)
    await worker.begin()

    await lose(rig)

    requeued = await rig.root.get(task)
    assert [requeued[name] for name in ("status", "requeue_count", "worker_id")] == ["pending", 1, worker.id]
    other = await rig.root.register_worker(JOB)
    assert (await other.begin())["run_id"] == 1
    await lose(rig)
    assert await state(rig, task) == ("failed", "Worker disconnected", other.id)


async def test_z11_a_stale_workers_links_are_dropped_and_orphans_deleted(rig: Rig):
    founder = await rig.root.found_job()
    await rig.root.register_job("kept")
    await founder.serve("lab:tasks:kept")

    await lose(rig)

    assert (await rig.root.worker(founder.id))["state"] == "lost"
    assert (await rig.root.worker(founder.id))["jobs"] == []
    assert (await rig.root.job("lab:tasks:kept"))["workers"] == []
    with refused("job-not-found", 404):
        await rig.root.job()


async def test_z11_a_worker_that_is_heard_of_in_time_keeps_what_it_has(rig: Rig):
    worker, run = await worked(rig, lease_seconds=3600)

    for _ in range(3):
        rig.advance(59)
        await worker.heartbeat()
        await rig.sweep()

    assert (await rig.root.worker(worker.id))["state"] != "lost"
    assert (await worker.complete(run))["status"] == "completed"


@over_http
async def test_z11_a_lost_worker_is_told_to_register_again(rig: Rig):
    """It serves nothing any more: to go on as if nothing had been would mean to wait for ever."""
    worker = await worker_of(rig)
    await lose(rig)

    with refused("worker-not-found", 404):
        await worker.claim()
    with refused("worker-not-found", 404):
        await worker.heartbeat()


@over_socket
async def test_z11_the_session_of_a_lost_worker_ends_and_it_comes_back_with_its_jobs(rig: Rig):
    """A frozen process whose connection stands must not be given one task after another, each to be lost."""
    worker = await worker_of(rig)
    assert isinstance(worker, SocketWorker)
    await asked(worker.socket, "beat", tasks=[], draining=False)
    await lose(rig)

    assert await worker.socket.closed() == 1001
    task = await rig.root.submit()
    assert (await rig.root.get(task))["status"] == "pending"
    async with connected(rig.served) as again:
        opened = await asked(again, "open", worker={"id": worker.id}, links=[JOB])
        assert (opened["worker"]["state"], opened["worker"]["jobs"]) == ("online", [JOB])
        assert [claim["id"] for claim in await again.claims(1)] == [task["id"]]


async def test_z11_a_worker_that_leaves_ends_its_runs_at_once(rig: Rig):
    worker = await worker_of(rig, concurrency=2)
    budgets: list[dict[str, Any]] = [{"job": JOB}, {"job": JOB, "max_requeues": 1}]
    failed, requeued = await rig.root.submit_many(*budgets)
    for run in await worker.claim(2):
        await worker.start(run)

    await worker.leave()

    assert [(await state(rig, failed)), (await state(rig, requeued))] == [
        ("failed", "Worker disconnected", worker.id),
        ("pending", "Worker disconnected", worker.id),
    ]


async def state(rig: Rig, task: Task) -> tuple[Any, ...]:
    now = await rig.root.get(task)
    return now["status"], now["error"], now["worker_id"]


async def test_z11_a_worker_is_lost_once_though_two_sweepers_turn_at_once(rig: Rig):
    worker = await worker_of(rig)
    task = await rig.root.submit(max_requeues=5)
    await worker.begin()
    other = rig.new_sweeper()
    await other.turn()
    rig.advance(61)

    await asyncio.gather(rig.sweep(), other.turn())

    assert (await rig.root.get(task))["requeue_count"] == 1
    assert len(await rig.root.runs(task)) == 1
