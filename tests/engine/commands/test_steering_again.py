"""Tasks that come back: what a resume and a rerun refill, and what keeps them from coming back (E9, L9, T4)."""

import pytest

from tests.engine.conftest import ADMIN
from treadle.wire.status import Reason, Status
from treadle_server.access.principal import Principal
from treadle_server.engine.commands import Each, Steer
from treadle_server.errors import InvalidTaskTransition, TaskConflict

pytestmark = pytest.mark.anyio

ONCE = {"max_retries": 1, "max_requeues": 1, "retry_base": 0}


@pytest.mark.parametrize("verb", ["resume", "rerun"])
async def test_a_failed_task_that_comes_back_has_its_budgets_anew_t4(shop, verb) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(options=ONCE)
    for kind, reason in (("exception", Reason.INTERMITTENT_TASK), ("failed", None), ("failed", None)):
        [run] = await shop.claim(worker)
        ended = await shop.run(run, kind, reason=reason, error="x")
    assert (ended.status, ended.retry_count, ended.requeue_count) == (Status.FAILED, 1, 1)

    back = await shop.steer(task, verb)
    assert (back.retry_count, back.requeue_count) == (0, 0)
    for kind, reason in (("exception", Reason.INTERMITTENT_TASK), ("failed", None)):
        [run] = await shop.claim(worker)
        assert (await shop.run(run, kind, reason=reason, error="x")).status is Status.PENDING


async def test_a_paused_task_that_comes_back_has_the_budgets_that_were_left_t4(shop) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(options=ONCE)
    [run] = await shop.claim(worker)
    await shop.run(run, "failed", error="x")
    await shop.steer(task, "pause")

    back = await shop.steer(task, "resume")

    assert (back.status, back.retry_count) == (Status.PENDING, 1)


@pytest.mark.parametrize(("end", "verb"), [("failed", "resume"), ("failed", "rerun"), ("completed", "rerun")])
async def test_a_task_whose_unique_key_another_has_now_does_not_come_back_l9(shop, end, verb) -> None:
    worker = await shop.worker()
    [task] = await shop.submit(unique_key="nightly")
    [run] = await shop.claim(worker)
    ended = await shop.run(run, end)
    [holder] = await shop.submit(unique_key="nightly")

    with pytest.raises(InvalidTaskTransition, match=holder.id):
        await shop.steer(task, verb)

    assert (await shop.get(task.id)).version == ended.version
    await shop.steer(holder, "cancel")
    assert (await shop.steer(task, verb)).status is Status.PENDING


@pytest.mark.parametrize(("end", "verb"), [("failed", "resume"), ("completed", "rerun")])
async def test_of_several_with_one_unique_key_the_first_comes_back_and_each_other_is_told_who_has_it_l9(
    shop, end, verb
) -> None:
    worker = await shop.worker()
    tasks = []
    for _ in range(3):
        tasks += await shop.submit(unique_key="nightly")
        [run] = await shop.claim(worker)
        await shop.run(run, end)
    ids = [task.id for task in tasks]

    back, *refused = await shop.engine.run(Each([Steer(principal=ADMIN, task_id=id_, action=verb) for id_ in ids]))

    assert (back.id, back.status) == (ids[0], Status.PENDING)
    assert len(refused) == 2
    assert all(isinstance(why, InvalidTaskTransition) and ids[0] in why.detail for why in refused)


async def test_g6_the_same_id_is_another_users_conflict_whatever_its_content(shop) -> None:
    [task] = await shop.submit()
    shop.principal = Principal("mallory", superuser=True)

    with pytest.raises(TaskConflict, match=task.id):
        await shop.submit(id=task.id)

    shop.principal = ADMIN
    assert [one.id for one in await shop.submit(id=task.id)] == [task.id]


async def test_a_rerun_of_what_had_failed_goes_to_the_back_of_its_targets_line_l2(shop, clock) -> None:
    worker = await shop.worker()
    first, second = await shop.submit(2, target="robot")
    [run] = await shop.claim(worker)
    await shop.run(run, "failed", error="x")
    clock.advance(1)

    await shop.steer(first, "rerun")

    assert [task.id for task in await shop.claim(worker)] == [second.id]


async def test_a_claim_that_is_handed_back_while_a_pause_is_asked_for_leaves_its_task_paused_l4(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [run] = await shop.claim(worker)
    await shop.steer(run, "pause")

    back = await shop.report(run, "returned")

    assert (back.status, back.cancel_requested, back.requeue_count) == (Status.PAUSED, False, 0)
