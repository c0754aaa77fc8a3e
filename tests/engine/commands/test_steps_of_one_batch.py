"""Steps and messages of a task that is run again in the batch that tells of them."""

import asyncio
from typing import Any

import pytest

from tests.engine.commands.test_steps import began_again, begun, keep, kept, receive, send, shop_worker, wait_for
from tests.engine.conftest import Shop
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Steer

pytestmark = pytest.mark.anyio


def rerun(shop: Shop, task: Task, **details: Any) -> Any:
    return shop.engine.run(Steer(principal=shop.principal, task_id=task.id, action="rerun", **details))


@pytest.mark.parametrize("from_step", [None, "charge"])
async def test_a_message_sent_beside_a_rerun_is_not_taken_by_a_step_that_goes(
    shop: Shop, from_step: str | None
) -> None:
    task = await begun(shop)
    await keep(shop, task, "charge", 1)
    await wait_for(shop, task, "approved")
    await shop.steer(task, "cancel")

    _, (message, is_new) = await asyncio.gather(
        rerun(shop, task, from_step=from_step), send(shop, task, "approved", "yes")
    )

    again = await began_again(shop, shop_worker(task))
    assert (is_new, message.step) == (True, None)
    step = await receive(shop, again, "approved")
    assert step is not None
    assert step.result == '"yes"'


async def test_a_rerun_forgets_the_ids_of_the_messages_that_it_deletes(shop: Shop) -> None:
    task = await begun(shop)
    await send(shop, task, "approved", "old")
    await shop.report(task, "completed")

    _, (_, is_new) = await asyncio.gather(rerun(shop, task), send(shop, task, "approved", "new"))

    again = await began_again(shop, shop_worker(task))
    step = await receive(shop, again, "approved")
    assert is_new
    assert step is not None
    assert step.result == '"new"'


async def test_a_rerun_clears_what_the_same_batch_has_kept_and_received(shop: Shop) -> None:
    task = await begun(shop)

    await asyncio.gather(
        keep(shop, task, "charge", 1),
        send(shop, task, "approved", "old"),
        receive(shop, task, "approved"),
        shop.report(task, "completed", usage=1.0),
        rerun(shop, task),
    )

    again = await began_again(shop, shop_worker(task))
    assert await kept(shop, task) == []
    assert (await receive(shop, again, "approved")) is None
    _, is_new = await send(shop, task, "approved", "old")
    assert is_new
    await keep(shop, again, "charge", 2)
    assert await kept(shop, task) == [("charge", 0, 2)]


async def test_a_rerun_from_a_step_lets_go_of_what_the_same_batch_gave_to_that_step(shop: Shop) -> None:
    task = await begun(shop)
    await send(shop, task, "approved", "early", "1")

    await asyncio.gather(
        keep(shop, task, "fetch", 1),
        receive(shop, task, "approved"),
        send(shop, task, "approved", "late", "2"),
        receive(shop, task, "approved", 1),
        shop.report(task, "completed", usage=1.0),
        rerun(shop, task, from_step="approved"),
    )

    again = await began_again(shop, shop_worker(task))
    assert again.status is Status.RUNNING
    assert await kept(shop, task) == [("fetch", 0, 1)]
    steps = [await receive(shop, again, "approved", n) for n in range(2)]
    assert [step.result for step in steps if step is not None] == ['"early"', '"late"']
