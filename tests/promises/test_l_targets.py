"""Rows L2, L6, L7 and L8: targets run one task at a time, and what holds them."""

import asyncio

import pytest

from tests.promises.problems import Problem, refused
from tests.promises.rig import Rig
from tests.promises.words import JOB, Task, Worker, run_of


async def workers_of(rig: Rig, count: int = 2) -> list[Worker]:
    await rig.root.register_job()
    return [await rig.root.register_worker(JOB) for _ in range(count)]


async def target(rig: Rig, name: str = "cam") -> dict:
    answer = await rig.root.http.get(f"/v1/rooms/lab/targets/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def block(rig: Rig, worker: Worker, cause: str) -> Task:
    """Let a task hold the target, and return it."""
    task = await rig.root.submit(target="cam", max_retries=1)
    if cause == "paused":
        return await rig.root.pause(task)
    run = await worker.take()
    if cause == "claimed":
        return run
    await worker.start(run)
    if cause == "retry":
        await worker.fail(run)
    elif cause == "failed":
        await worker.exception(run, "malformed-payload", error="bad")
    elif cause == "stopping":
        await rig.root.cancel(run)
    return run


CAUSES = ["claimed", "running", "paused", "failed", "retry", "stopping"]


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_held_target_lets_nothing_by_whatever_the_priority_and_stops_no_other_l2(rig: Rig, cause: str):
    worker, other = await workers_of(rig)
    await block(rig, worker, cause)
    urgent = await rig.root.submit(target="cam", priority=100)
    elsewhere = await rig.root.submit(target="door")
    free = await rig.root.submit()

    claimed = []
    for _ in range(2):
        run = await other.begin()
        claimed.append(run["id"])
        await other.complete(run)

    assert claimed == [elsewhere["id"], free["id"]]
    assert await other.claim() == []
    assert (await rig.root.get(urgent))["status"] == "pending"


@pytest.mark.parametrize("cause", CAUSES)
async def test_a_target_shows_whether_it_is_held_by_which_task_and_why_l7(rig: Rig, cause: str):
    worker, _ = await workers_of(rig)
    holder = await block(rig, worker, cause)
    waiting = await rig.root.submit(target="cam")

    shown = await target(rig)

    assert [one["task_id"] if isinstance(one, dict) else one for one in shown["holders"]] == [holder["id"]]
    assert shown["cause"] == cause
    assert shown["waiting"] == 1
    assert (await rig.root.get(waiting))["blocked_by"] == [holder["id"]]


async def test_settled_and_scheduled_tasks_hold_nothing_l2(rig: Rig):
    worker, _ = await workers_of(rig)
    await rig.root.submit(target="cam", delay=60)
    done = await rig.root.submit(target="cam")
    await worker.complete(await worker.begin())
    gone = await rig.root.submit(target="cam")
    await rig.root.cancel(gone)

    last = await rig.root.submit(target="cam")

    assert (await worker.take())["id"] == last["id"]
    assert (await rig.root.get(done))["status"] == "completed"


async def test_a_failed_task_that_releases_lets_the_next_one_by_l2(rig: Rig):
    worker, _ = await workers_of(rig)
    await rig.root.submit(target="cam", on_failure="release")
    after = await rig.root.submit(target="cam")

    await worker.fail(await worker.begin())

    assert (await worker.take())["id"] == after["id"]


async def test_many_claims_at_once_never_get_two_tasks_of_one_target_l2(rig: Rig):
    workers = await workers_of(rig, 4)
    names = ["a", "b", "c"]
    await rig.root.submit_many(*[{"job": JOB, "target": name} for _ in range(4) for name in names])
    seen: dict[str, list[str]] = {name: [] for name in names}

    for _ in range(4):
        claims = await asyncio.gather(*(worker.claim() for worker in workers))
        runs = [(worker, run) for worker, got in zip(workers, claims, strict=True) for run in got]
        assert sorted(run["target"] for _, run in runs) == names
        for worker, run in runs:
            seen[run["target"]].append(run["id"])
            await worker.start(run)
            await worker.complete(run)

    for order in seen.values():
        assert order == sorted(order)
        assert len(set(order)) == 4


async def test_cancelled_code_that_still_runs_holds_the_target_until_it_says_stopped_l6(rig: Rig):
    worker, other = await workers_of(rig)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    after = await rig.root.submit(target="cam")
    assert (await rig.root.cancel(run))["status"] == "cancelled"
    assert await other.claim() == []

    await worker.stopped(run)

    assert (await other.take())["id"] == after["id"]


async def test_a_refused_report_ends_the_hold_too_l6(rig: Rig):
    worker, other = await workers_of(rig)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    after = await rig.root.submit(target="cam")
    await rig.root.cancel(run)

    with refused("stale-run", 409):
        await worker.complete(run)

    assert (await other.take())["id"] == after["id"]


async def test_a_stopped_run_in_a_heartbeat_ends_the_hold_too_l6(rig: Rig):
    worker, other = await workers_of(rig)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    after = await rig.root.submit(target="cam")
    await rig.root.cancel(run)

    await worker.heartbeat(stopped=[run])

    assert (await other.take())["id"] == after["id"]


async def test_only_a_heartbeat_that_names_the_run_renews_its_hold_which_ends_with_its_lease_l6(rig: Rig):
    worker, other = await workers_of(rig)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    after = await rig.root.submit(target="cam")
    await rig.root.cancel(run)
    rig.advance(40)
    answer = await worker.heartbeat(run)
    assert answer["cancel"] == [run_of(run)]
    for _ in range(2):
        rig.advance(29)
        await worker.heartbeat(every=True)
        await other.heartbeat()
        await rig.sweep()
        assert await other.claim() == []

    rig.advance(2)
    await rig.sweep()

    assert (await other.take())["id"] == after["id"]


async def test_nobody_else_ends_or_renews_a_hold_l6(rig: Rig):
    """A stopped report, a refused one or a heartbeat of another user's worker leaves the target to its owner."""
    worker, other = await workers_of(rig)
    await rig.root.submit(target="cam")
    run = await worker.begin()
    await rig.root.submit(target="cam")
    await rig.root.cancel(run)
    stranger = await rig.user("stranger")
    await stranger.register_job("theirs", room="den")
    theirs = await stranger.register_worker("den:tasks:theirs")

    assert (await theirs.heartbeat(run))["gone"] == [run_of(run)]
    await theirs.heartbeat(stopped=[run])
    for kind in ("stopped", "completed"):
        with pytest.raises(Problem):
            await theirs.report(kind, run)

    assert await other.claim() == []
    await worker.stopped(run)
    assert len(await other.claim()) == 1


async def test_a_task_moved_to_a_free_target_waits_for_its_own_old_code_l6(rig: Rig):
    worker, other = await workers_of(rig)
    task = await rig.root.submit(target="cam")
    run = await worker.begin()
    await rig.root.cancel(task)
    await rig.root.rerun(task)
    await rig.root.edit(task, target="door")
    assert await other.claim() == []
    behind = await rig.root.submit(target="door")

    assert (await other.take())["id"] == behind["id"]
    await worker.stopped(run)
    await other.report("started", {"id": behind["id"], "run_id": 0})
    await other.complete({"id": behind["id"], "run_id": 0})

    again = await other.take()
    assert (again["id"], again["run_id"]) == (task["id"], 1)


async def test_a_task_resumed_while_its_old_code_runs_is_queued_and_not_claimable_l6(rig: Rig):
    worker, other = await workers_of(rig)
    task = await rig.root.submit(budget=1)
    run = await worker.begin()
    await worker.heartbeat({**run})
    await worker.progress(run, 0.5)
    answer = await rig.root.http.patch(f"/v1/workers/{worker.id}", json={"tasks": [{**run_of(run), "usage": 2}]})
    assert answer.json()["cancel"] == [run_of(run)]
    assert (await rig.root.get(task))["status"] == "failed"

    resumed = await rig.root.resume(task)

    assert (resumed["status"], resumed["queue_position"]) == ("pending", 1)
    assert await other.claim() == []
    await worker.stopped(run)
    again = await other.take()
    assert (again["run_id"], again["taken_until"] is not None) == (1, True)


async def test_two_resumes_at_once_make_one_run_and_the_other_is_a_409_l6(rig: Rig):
    worker, other = await workers_of(rig)
    task = await rig.root.submit()
    await rig.root.pause(task)

    answers = await asyncio.gather(*(rig.root.resume(task) for _ in range(2)), return_exceptions=True)

    [problem] = [answer for answer in answers if isinstance(answer, Problem)]
    assert (problem.type, problem.status) == ("invalid-task-transition", 409)
    claims = await asyncio.gather(worker.claim(), other.claim())
    assert [run["run_id"] for got in claims for run in got] == [0]


@pytest.mark.parametrize("ended", ["paused", "failed"])
async def test_a_resumed_task_is_pending_again_with_a_fresh_lease_and_clean_flags_l6(rig: Rig, ended: str):
    worker, _ = await workers_of(rig)
    task = await rig.root.submit(lease_seconds=30)
    first = await worker.begin()
    await worker.checkpoint(first, {"at": 3})
    if ended == "paused":
        await rig.root.pause(task)
        await worker.pause_report(first)
    else:
        await worker.fail(first)
    rig.advance(100)

    resumed = await rig.root.resume(task)
    again = await worker.take()

    assert (resumed["status"], resumed["cancel_requested"], resumed["error"], resumed["reason"]) == (
        "pending",
        False,
        None,
        None,
    )
    assert (again["run_id"], again["checkpoint"], again["seconds_left"]) == (1, {"at": 3}, 30)


async def test_of_two_blockers_one_resumed_is_still_blocked_by_the_other_and_runs_first_when_free_l7(rig: Rig):
    worker, _ = await workers_of(rig)
    first = await rig.root.submit(target="cam", on_failure="release")
    await worker.fail(await worker.begin())
    second = await rig.root.submit(target="cam")
    await worker.fail(await worker.begin())
    await rig.root.resume(first)
    await rig.root.pause(first)
    urgent = await rig.root.submit(target="cam", priority=9)

    await rig.root.resume(first)

    assert await worker.claim() == []
    assert (await rig.root.get(first))["blocked_by"] == [second["id"]]
    await rig.root.resolve(second)
    assert (await worker.begin())["id"] == first["id"]
    await worker.complete({"id": first["id"], "run_id": 1})
    assert (await worker.take())["id"] == urgent["id"]


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
@pytest.mark.parametrize("before", ["paused", "failed"])
async def test_a_task_resolved_by_hand_is_settled_with_its_result_and_frees_its_target_l8(
    rig: Rig, before: str, status: str
):
    worker, _ = await workers_of(rig)
    task = await rig.root.submit(target="cam")
    run = await worker.begin()
    if before == "paused":
        await rig.root.pause(task)
        await worker.pause_report(run)
    else:
        await worker.fail(run)
    after = await rig.root.submit(target="cam")
    given = {"result": {"by": "hand"}} if status == "completed" else {"error": "given up"}

    settled = await rig.root.resolve(task, status=status, **given)

    assert (settled["status"], settled["settled"], settled["completed_at"] is not None) == (status, True, True)
    assert (settled["result"], settled["error"]) == (given.get("result"), given.get("error"))
    assert [one["status"] for one in await rig.root.runs(task)][-1] == status
    assert (await worker.take())["id"] == after["id"]


async def test_only_paused_and_failed_tasks_are_resolved_l8(rig: Rig):
    worker, _ = await workers_of(rig)
    task = await rig.root.submit()
    with refused("invalid-task-transition", 409):
        await rig.root.resolve(task)
    run = await worker.begin()
    with refused("invalid-task-transition", 409):
        await rig.root.resolve(task)
    await worker.complete(run)
    with refused("invalid-task-transition", 409):
        await rig.root.resolve(task)
