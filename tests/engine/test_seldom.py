"""Rules that seldom count: what happens where two rare things meet."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from tests.engine.conftest import ADMIN
from tests.engine.dispatch.test_dispatcher_waiting import SocketWorker
from tests.waiting import until
from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Reason, Status
from treadle.wire.workers import Renewal
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands import (
    Beat,
    Edit,
    PatchStatus,
    Reattach,
    RegisterJob,
    RegisterWorker,
    ReturnUnstarted,
    RunReport,
    Submission,
    Submit,
)
from treadle_server.engine.dispatch.presence import Presence
from treadle_server.engine.hub import Batch, Hub
from treadle_server.errors import StaleRun, TaskConflict

pytestmark = pytest.mark.anyio

ID = TaskId("01980000-0000-7000-8000-000000000001")


async def test_a_completion_beyond_the_budget_completes_for_its_work_is_done_l4(shop) -> None:
    worker = await shop.worker()
    await shop.submit(options={"budget": 1})
    [run] = await shop.claim(worker)

    done = await shop.run(run, "completed", usage=2, result="7")

    assert (done.status, done.result, done.usage) == (Status.COMPLETED, "7", 2)


async def test_an_unfenced_run_keeps_no_hold_for_nobody_could_end_it_l6(shop) -> None:
    """An older client names no run: the word that its code has stopped would never come."""
    worker, other = await shop.worker(), await shop.worker()
    first, second = await shop.submit(2, target="printer")
    assert len(await shop.claim(worker)) == 1
    started = PatchStatus(
        principal=ADMIN, task_id=first.id, status=Status.RUNNING, report=RunReport(kind="started"), run_id=None
    )
    assert (await shop.engine.run(started)).unfenced

    await shop.steer(first, "cancel")

    assert [task.id for task in await shop.claim(other)] == [second.id]


async def test_a_thread_that_ignores_its_timeout_holds_on_though_its_task_was_cancelled_l6(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    _, second = await shop.submit(2, target="printer")
    [run] = await shop.claim(worker)
    await shop.report(run, "started")
    await shop.steer(run, "cancel")

    with pytest.raises(StaleRun):
        await shop.report(run, "failed", reason=Reason.TIMEOUT, error="x", code_runs=True)

    assert await shop.claim(other) == []
    await shop.report(run, "stopped")
    assert [task.id for task in await shop.claim(other)] == [second.id]


async def test_a_thread_that_runs_on_keeps_its_task_from_another_target_too_l6(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    [task] = await shop.submit(target="cam", options={"max_retries": 1, "retry_base": 0})
    [run] = await shop.claim(worker)
    await shop.run(run, "failed", reason=Reason.TIMEOUT, error="x", code_runs=True)
    await shop.engine.run(Edit(principal=ADMIN, task_id=task.id, changes={"target": "door"}))
    assert await shop.claim(other) == []

    await shop.report(run, "stopped")

    assert [one.run_id for one in await shop.claim(other)] == [1]


async def test_a_task_that_is_moved_away_lets_the_next_of_its_target_by_l2(shop) -> None:
    worker = await shop.worker()
    first, second = await shop.submit(2, target="printer")

    await shop.engine.run(Edit(principal=ADMIN, task_id=first.id, changes={"target": None}))

    assert {task.id for task in await shop.claim(worker, 5)} == {first.id, second.id}


async def test_one_id_for_two_tasks_of_a_request_is_a_conflict_g6(shop) -> None:
    items = [Submission(job_name=shop.job, payload="{}", content_hash=content, id=ID) for content in (b"x", b"y")]

    with pytest.raises(TaskConflict, match="twice"):
        await shop.engine.run(Submit(principal=ADMIN, room="@global", items=items))
    same = await shop.engine.run(Submit(principal=ADMIN, room="@global", items=[items[0], items[0]]))

    assert [one.created for one in same] == [True, False]


async def test_a_worker_that_only_links_itself_leaves_the_jobs_defaults_as_they_are_e7(shop) -> None:
    async def register(defaults: str) -> str:
        command = RegisterJob(
            principal=ADMIN, room="lab", category="tasks", name="add", schema="{}", defaults=defaults, retain=True
        )
        return (await shop.engine.run(command)).job.defaults

    assert await register('{"priority": 3}') == '{"priority": 3}'
    assert await register("{}") == '{"priority": 3}'
    assert await register('{"priority": 4}') == '{"priority": 4}'


async def test_a_heartbeat_that_tells_of_too_much_usage_ends_the_run_l4(shop) -> None:
    worker = await shop.worker()
    await shop.submit(options={"budget": 1})
    [run] = await shop.claim(worker)
    await shop.report(run, "started")
    renewal = Renewal(task_id=run.id, run_id=0, usage=2)

    answer = await shop.engine.run(Beat(principal=ADMIN, worker_id=worker, tasks=[renewal]))

    assert (answer.cancel, answer.taken_until) == ([(run.id, 0)], [])
    assert (await shop.get(run.id)).reason is Reason.BUDGET_EXCEEDED


async def test_a_session_that_broke_returns_nothing_of_a_worker_that_is_back_elsewhere_g8_g11(shop) -> None:
    here, there = str(uuid4()), str(uuid4())
    worker = await shop.worker(home=here)
    await shop.submit()
    [run] = await shop.claim(worker)
    await shop.engine.run(RegisterWorker(principal=ADMIN, id=worker, home=there))

    gone = [ReturnUnstarted(principal=ADMIN, worker_id=worker, home=home) for home in (here, there)]

    assert [await shop.engine.run(one) for one in gone] == [0, 1]
    assert (await shop.get(run.id)).status is Status.PENDING


async def test_an_open_that_a_server_ends_late_returns_nothing_of_a_worker_that_has_gone_elsewhere_g8_g11(shop) -> None:
    here, there = str(uuid4()), str(uuid4())
    worker = await shop.worker(home=here)
    await shop.engine.run(RegisterWorker(principal=ADMIN, id=worker, home=there))
    await shop.submit()
    [run] = await shop.claim(worker)

    late, at_home = [Reattach(principal=ADMIN, worker_id=worker, home=home) for home in (here, there)]

    await shop.engine.run(late)
    assert (await shop.get(run.id)).status is Status.CLAIMED
    await shop.engine.run(at_home)
    assert (await shop.get(run.id)).status is Status.PENDING


async def test_what_was_claimed_for_a_slot_that_closed_meanwhile_goes_back_at_once_g8(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    dispatcher, look = SocketWorker(shop, worker), shop.engine.dispatcher.assign

    async def closing(*arguments: Any) -> Any:
        handed = await look(*arguments)
        shop.engine.close_slot(dispatcher.slot)
        return handed

    shop.engine.dispatcher.assign = closing
    [task] = await shop.submit()
    shop.engine.dispatcher.assign = look

    async with asyncio.timeout(20):
        [again] = await shop.engine.claims.claim(ADMIN, other, wait=15)
    assert (dispatcher.given, again.id, again.run_id, again.requeue_count) == ([], task.id, 1, 0)


async def test_a_caller_who_goes_in_the_moment_of_its_claim_gives_it_back_c1(shop) -> None:
    worker, other = await shop.worker(), await shop.worker()
    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20))
    await until(lambda: shop.engine.dispatcher.is_waited_for([worker]), pause=0)
    [task] = await shop.submit()

    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    async with asyncio.timeout(20):
        [again] = await shop.engine.claims.claim(ADMIN, other, wait=15)
    assert (again.id, again.run_id) == (task.id, 1)


def test_a_heartbeat_after_the_clock_was_set_back_is_one_too() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    worker, presence = Worker(WorkerId("w"), "u", created_at=at, last_heartbeat=at), Presence()
    presence.note(worker, 0.0)
    assert presence.owes(30.0, 60.0, busy_since=None)

    worker.last_heartbeat = at - timedelta(hours=1)
    presence.note(worker, 30.0)

    assert not presence.owes(31.0, 60.0, busy_since=None)


def test_a_gap_takes_a_number_so_that_nobody_resumes_across_it_g7() -> None:
    hub = Hub()

    hub.publish(Batch(datetime(2026, 1, 1, tzinfo=UTC), has_gap=True))

    assert hub.seq == 1


async def test_a_task_as_heavy_as_a_worker_can_take_is_given_to_it_e5(shop) -> None:
    worker = await shop.worker(concurrency=3)
    for weight in (4, 3):
        await shop.submit(options={"weight": weight})

    assert [task.weight for task in await shop.claim(worker, 5)] == [3]


async def test_of_a_job_s_lanes_the_more_urgent_task_goes_first_whatever_its_pool_e2(shop) -> None:
    worker = await shop.worker(pool="gpu")
    await shop.submit(options={"pool": "gpu"})
    await shop.submit(options={"priority": 5})
    await shop.submit(options={"pool": "gpu", "priority": 1})

    assert [task.priority for task in await shop.claim(worker, 3)] == [5, 1, 0]


async def test_a_room_that_was_just_served_is_served_again_when_its_task_is_more_urgent_l9(shop) -> None:
    lab, den = [await shop.register(room=room) for room in ("lab", "den")]
    worker = await shop.worker(lab, den)
    await shop.submit(job=lab, room="lab")
    assert len(await shop.claim(worker)) == 1
    await shop.submit(job=den, room="den")
    await shop.submit(job=lab, room="lab", options={"priority": 5})

    assert [task.room for task in await shop.claim(worker, 2)] == ["lab", "den"]


async def test_of_a_targets_line_only_the_first_can_be_claimed_though_another_was_first_before_l2(shop) -> None:
    worker = await shop.worker()
    await shop.submit(target="printer")
    [urgent] = await shop.submit(target="printer", options={"priority": 5})

    assert [task.id for task in await shop.claim(worker, 5)] == [urgent.id]


async def test_a_task_that_comes_later_has_no_place_and_counts_for_none_z14(shop) -> None:
    async def place(**details: Any) -> int | None:
        item = Submission(job_name=shop.job, payload="{}", content_hash=b"x", **details)
        [submitted] = await shop.engine.run(Submit(principal=ADMIN, room="@global", items=[item]))
        return submitted.position

    assert [await place(), await place(delay=60), await place()] == [1, None, 2]
