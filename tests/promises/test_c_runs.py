"""Runs: claimed, reclaimed, expired, reported (C1, C4, C5, C7)."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.api.rooms import until
from tests.conftest import FakeClock
from tests.promises.over_socket import SocketWorker, asked
from tests.promises.problems import Problem, refused
from tests.promises.rig import Rig, over_http, over_socket, worked, worker_of
from tests.promises.words import JOB, Task, Worker, run_of


async def picture(rig: Rig, task: Task) -> tuple[Any, ...]:
    return await rig.root.get(task), await rig.root.runs(task)


@pytest.mark.parametrize("most", [1, 3])
async def test_c1_a_claim_gives_as_many_as_are_asked_for(rig: Rig, most: int):
    worker = await worker_of(rig, concurrency=most)
    tasks = await rig.root.submit_many(*({"job": JOB} for _ in range(5)))

    claims = await worker.claim(most)

    assert [task["id"] for task in claims] == [task["id"] for task in tasks[:most]]
    assert {task["status"] for task in claims} == {"claimed"}


async def test_c1_a_waiting_claim_is_woken_and_gives_what_there_is(rig: Rig):
    """It returns as soon as there is one, though it asks for three."""
    worker = await worker_of(rig, concurrency=3)
    claim = asyncio.ensure_future(worker.claim(3, wait=20))
    for _ in range(2):
        await rig.root.submit(delay=60)  # when the second is answered, the claim waits
    assert not claim.done()

    task = await rig.root.submit()

    async with asyncio.timeout(20):
        assert [one["id"] for one in await claim] == [task["id"]]


@over_http
async def test_c1_a_claim_waits_for_up_to_twenty_seconds(rig: Rig):
    worker = await worker_of(rig)

    for options in ({"wait": 21}, {"wait": -1}, {"most": 0}, {"most": 101}):
        with refused("validation-error", 422):
            await worker.claim(**options)  # type: ignore[arg-type]
    assert await worker.claim(wait=0.01) == []


@over_socket
async def test_c1_a_session_that_closes_while_it_waits_claims_nothing(rig: Rig):
    worker = await worker_of(rig)
    assert isinstance(worker, SocketWorker)
    await asked(worker.socket, "beat", tasks=[], draining=False)
    assert rig.engine.dispatcher.has_taker

    await worker.socket.connection.close()
    await until(lambda: not rig.engine.dispatcher.has_taker)

    task = await rig.root.submit()
    assert (await rig.root.get(task))["status"] == "pending"


async def test_c2_a_claim_has_the_task_its_run_its_lease_and_the_checkpoint(rig: Rig):
    worker, first = await worked(rig, payload={"n": 1}, max_retries=1, retry_base=0, lease_seconds=30, tags={"k": "v"})
    await worker.checkpoint(first, {"at": 3})
    await worker.fail(first)

    again = await worker.take()

    assert [again[name] for name in ("status", "run_id", "payload", "tags")] == ["claimed", 1, {"n": 1}, {"k": "v"}]
    assert (again["checkpoint"], again["seconds_left"]) == ({"at": 3}, 30)
    assert "credentials" in again


async def renewed(rig: Rig, worker: Worker, run: Task) -> dict[str, Any]:
    """Reclaim: by its route, or on the socket with a heartbeat that names the run."""
    if rig.transport == "http":
        return await worker.reclaim(run)
    [answer] = (await worker.heartbeat(run))["taken_until"]
    return answer  # type: ignore[no-any-return]


async def test_c4_a_reclaim_gives_a_new_end_of_the_lease_that_is_the_committed_one(rig: Rig):
    worker, run = await worked(rig, lease_seconds=60)
    rig.advance(40)

    answer = await renewed(rig, worker, run)

    assert answer["seconds_left"] == 60
    assert answer["taken_until"] > run["taken_until"]
    assert (await rig.root.get(run))["taken_until"] == answer["taken_until"]
    rig.advance(40)
    await worker.heartbeat()
    await rig.sweep()
    assert (await rig.root.get(run))["status"] == "running"


async def to_be_cancelled(rig: Rig, worker: Worker, run: Task) -> None:
    await rig.root.cancel(run)


async def to_be_completed(rig: Rig, worker: Worker, run: Task) -> None:
    await worker.complete(run)


async def to_expire(rig: Rig, worker: Worker, run: Task) -> None:
    rig.advance(61)
    await worker.heartbeat()
    await rig.sweep()


async def to_be_taken(rig: Rig, worker: Worker, run: Task) -> None:
    await to_expire(rig, worker, run)
    other = await rig.root.register_worker(JOB)
    assert (await other.take())["run_id"] == run["run_id"] + 1


LOSSES = [to_be_cancelled, to_be_completed, to_expire, to_be_taken]


@pytest.mark.parametrize("lose", LOSSES)
async def test_c4_a_run_that_is_resolved_or_taken_is_not_reclaimed(
    rig: Rig, lose: Callable[[Rig, Worker, Task], Awaitable[None]]
):
    worker, run = await worked(rig, max_requeues=1)
    await lose(rig, worker, run)
    before = await picture(rig, run)
    rig.advance(1)

    with refused("stale-run", 409):
        await worker.reclaim(run)
    beat = await worker.heartbeat(run)

    # Of a cancelled run whose code may still go on the hold is told, never a lease.
    still = "cancel" if lose is to_be_cancelled else "gone"
    assert beat[still] == [run_of(run)]
    assert still == "cancel" or beat["taken_until"] == []
    assert await picture(rig, run) == before


@pytest.mark.parametrize("lose", [to_be_cancelled, to_expire, to_be_taken])
async def test_c4_a_lost_run_reports_and_notes_nothing_any_more(
    rig: Rig, lose: Callable[[Rig, Worker, Task], Awaitable[None]]
):
    """G3: refused with 409, and nothing is stored."""
    worker, run = await worked(rig, max_requeues=1)
    await lose(rig, worker, run)
    before = [*(await picture(rig, run)), await rig.root.logs(run)]

    for report in (
        worker.start(run),
        worker.checkpoint(run, [1]),
        worker.progress(run, 0.5),
        worker.log(run, "line"),
        worker.complete(run, 1),
        worker.fail(run),
        worker.exception(run, "internal-error"),
        worker.pause_report(run, checkpoint=[1]),
    ):
        with refused("stale-run", 409):
            await report

    assert [*(await picture(rig, run)), await rig.root.logs(run)] == before


async def test_c4_a_run_that_was_never_claimed_is_not_reclaimed(rig: Rig):
    worker, run = await worked(rig)

    with refused("stale-run", 409):
        await worker.reclaim(run, run_id=1)

    assert (await rig.root.get(run))["status"] == "running"


async def test_c5_a_run_that_is_not_reclaimed_in_time_is_an_exception_and_a_new_one_is_made(rig: Rig):
    worker, run = await worked(rig, max_requeues=1)

    await to_expire(rig, worker, run)

    task, [ended] = await picture(rig, run)
    assert (task["status"], task["requeue_count"], task["retry_count"]) == ("pending", 1, 0)
    assert (ended["status"], ended["reason"], ended["error"]) == ("exception", "claim-expired", "Worker disconnected")
    second = await worker.begin()
    assert second["run_id"] == 1
    await to_expire(rig, worker, second)
    task, runs = await picture(rig, run)
    assert (task["status"], task["reason"], task["error"]) == ("failed", "claim-expired", "Worker disconnected")
    assert [one["reason"] for one in runs] == ["claim-expired", "claim-expired"]


async def test_c5_the_first_loss_is_requeued_at_once_and_the_next_with_a_small_pause(rig: Rig):
    worker, run = await worked(rig, max_requeues=3)
    pauses = []
    for _ in range(3):
        await to_expire(rig, worker, run)
        task = await rig.root.get(run)
        due = task["next_retry_at"]
        pauses.append(task["status"])
        if due is not None:
            rig.advance(60)
            await worker.heartbeat()
            await rig.promote()
        run = await worker.begin()

    assert pauses == ["pending", "scheduled", "scheduled"]
    assert run["run_id"] == 3


async def test_c5_a_completion_after_the_lease_ended_and_before_the_sweep_is_accepted(rig: Rig):
    """L5: the lease is over only once it is taken away."""
    worker, run = await worked(rig, max_requeues=1)
    rig.advance(61)

    assert (await worker.complete(run, 7))["result"] == 7

    await rig.sweep()
    assert (await rig.root.get(run))["status"] == "completed"
    assert [one["status"] for one in await rig.root.runs(run)] == ["completed"]


@pytest.mark.parametrize("same_worker", [True, False])
async def test_c5_a_completion_after_the_sweep_is_refused_and_leaves_the_new_run_alone(rig: Rig, *, same_worker: bool):
    """The old and the new run may well be on the same worker: their numbers tell them apart."""
    worker, old = await worked(rig, max_requeues=1)
    await to_expire(rig, worker, old)
    second = worker if same_worker else await rig.root.register_worker(JOB)
    new = await second.begin()
    assert (new["id"], new["run_id"]) == (old["id"], 1)
    before = await picture(rig, new)

    with refused("stale-run", 409):
        await worker.complete(old, "old")
    assert await picture(rig, new) == before

    assert (await second.complete(new, "new"))["result"] == "new"
    assert [run["status"] for run in await rig.root.runs(new)] == ["exception", "completed"]


async def test_c5_two_sweepers_take_a_lease_away_once(rig: Rig):
    worker, run = await worked(rig, max_requeues=5)
    other = rig.new_sweeper()
    await other.turn()
    rig.advance(61)
    await worker.heartbeat()

    await asyncio.gather(rig.sweep(), other.turn(), rig.sweep())

    task, runs = await picture(rig, run)
    assert (task["requeue_count"], len(runs)) == (1, 1)


ENDINGS: dict[str, Callable[[Worker, Task], Awaitable[Task]]] = {
    "completed": lambda worker, run: worker.complete(run, {"sum": 3}),
    "completed otherwise": lambda worker, run: worker.complete(run, {"sum": 4}),
    "failed": lambda worker, run: worker.fail(run, "boom"),
    "failed otherwise": lambda worker, run: worker.fail(run, "bang"),
    "timeout": lambda worker, run: worker.fail(run, "boom", reason="timeout"),
    "malformed": lambda worker, run: worker.exception(run, "malformed-payload", error="boom"),
    "internal": lambda worker, run: worker.exception(run, "internal-error", error="boom"),
    "shutdown": lambda worker, run: worker.exception(run, "worker-shutdown", error="boom"),
    "paused": lambda worker, run: worker.pause_report(run, checkpoint=[1]),
    "paused otherwise": lambda worker, run: worker.pause_report(run, checkpoint=[2]),
}


@pytest.mark.parametrize("first", ENDINGS)
async def test_c7_the_same_report_twice_is_fine_and_any_other_is_a_conflict(rig: Rig, first: str):
    """Every pair of endings; whatever comes second changes nothing."""
    worker, run = await worked(rig)
    await ENDINGS[first](worker, run)
    before = await picture(rig, run)
    rig.advance(1)

    for second, report in ENDINGS.items():
        if second == first:
            await report(worker, run)
        else:
            with refused("stale-run", 409):
                await report(worker, run)
        assert await picture(rig, run) == before, second


@pytest.mark.parametrize("first", ["failed", "shutdown", "timeout"])
async def test_c7_a_report_that_is_repeated_while_the_next_run_goes_on_leaves_that_alone(rig: Rig, first: str):
    worker, old = await worked(rig, max_retries=1, retry_base=0, max_requeues=1)
    await ENDINGS[first](worker, old)
    new = await worker.begin()
    assert new["run_id"] == 1
    before = await picture(rig, new)

    await ENDINGS[first](worker, old)
    with refused("stale-run", 409):
        await worker.complete(old)

    assert await picture(rig, new) == before


async def test_c7_duplicates_at_the_same_instant_are_one_completion(rig: Rig):
    worker, run = await worked(rig)
    observer = await rig.observer()

    await asyncio.gather(*(worker.complete(run, 7) for _ in range(5)))

    await observer.call("ping")
    events = [event for push in observer.pushes for event in push["events"]]
    assert [event["task"]["status"] for event in events] == ["completed"]
    assert [one["status"] for one in await rig.root.runs(run)] == ["completed"]


async def test_c7_a_start_that_is_repeated_does_not_start_the_clock_again(rig: Rig):
    worker, run = await worked(rig)
    before = await picture(rig, run)
    rig.advance(5)

    await worker.start(run)

    assert await picture(rig, run) == before


@pytest.mark.parametrize("first", ["complete", "cancel", "together"])
async def test_c7_of_a_completion_and_a_cancel_at_the_same_instant_one_wins(rig: Rig, first: str):
    """In both orders, and from two connections at once; the other is told so."""
    alice = await rig.user("alice")
    await rig.root.register_job()
    for _ in range(8):
        worker = await rig.root.register_worker(JOB)
        await alice.submit()
        run = await worker.begin()
        if first == "together":
            outcomes = await asyncio.gather(worker.complete(run, 1), alice.cancel(run), return_exceptions=True)
        elif first == "complete":
            outcomes = [await tried(worker.complete(run, 1)), await tried(alice.cancel(run))]
        else:
            outcomes = list(reversed([await tried(alice.cancel(run)), await tried(worker.complete(run, 1))]))

        completed, cancelled = (not isinstance(outcome, Problem) for outcome in outcomes)
        assert completed != cancelled
        [refusal] = [outcome for outcome in outcomes if isinstance(outcome, Problem)]
        assert refusal.status == 409
        task, [ended] = await picture(rig, run)
        assert task["status"] == ended["status"] == ("completed" if completed else "cancelled")
        assert task["result"] == (1 if completed else None)
        assert first == "together" or completed == (first == "complete")


async def tried(word: Awaitable[Task]) -> Task | Problem:
    try:
        return await word
    except Problem as problem:
        return problem


async def test_log_lines_keep_their_order_also_when_the_clock_stands_still_or_goes_back_l5(rig: Rig, clock: FakeClock):
    """E12: lines of one instant are all kept."""
    worker, run = await worked(rig)
    said = [f"line {n}" for n in range(12)]

    await worker.log(run, *said[:5])
    await worker.log(run, *said[5:8])
    clock.advance(0.000_002)
    await worker.log(run, *said[8:10])
    clock.jump(-3600)
    await worker.log(run, *said[10:])

    assert await rig.root.logs(run) == said
