"""A task is edited in the batch that puts it in, as an edit behind a submit in one frame comes: as any other is."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.engine.conftest import Shop
from tests.engine.test_limits import named, set_limit
from treadle.wire.ids import TaskId
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Edit
from treadle_server.errors import LimitNotFound, UniqueKeyHeld

pytestmark = pytest.mark.anyio

NEW = TaskId("0199f0a2-7c1e-7e07-8f1d-2f6b3c9d7a11")


async def put_in_and_edited(shop: Shop, **changes: Any) -> Task:
    edit = Edit(principal=shop.principal, task_id=NEW, changes=changes)
    # With a unique key it is put in by the way of all commands, in their order.
    await asyncio.gather(shop.submit(id=NEW, unique_key="new"), shop.engine.run(edit))
    return await shop.get(NEW)


@pytest.mark.parametrize(
    ("changes", "of_task"),
    [
        ({"target": "printer"}, {"target": "printer", "stands_in_line": True}),
        ({"pool": "gpu"}, {"pool": "gpu"}),
        ({"unique_key": "other"}, {"unique_key": "other"}),
        ({"limits": named(key="acme")}, {"limit_names": ["api=acme"]}),
    ],
    ids="-".join,
)
async def test_what_an_edit_names_is_found(shop: Shop, changes: dict[str, Any], of_task: dict[str, Any]) -> None:
    await set_limit(shop, concurrency=1)

    task = await put_in_and_edited(shop, priority=7, **changes)

    assert task.priority == 7
    assert task.version == 2
    for name, value in of_task.items():
        assert (named_in(task) if name == "limit_names" else getattr(task, name)) == value


def named_in(task: Task) -> list[str]:
    return [f"{one['name']}={one['key']}" for one in orjson.loads(task.limits or "[]")]


async def test_who_holds_the_key_that_an_edit_wants_is_found(shop: Shop) -> None:
    await shop.submit(unique_key="held")

    with pytest.raises(UniqueKeyHeld):
        await put_in_and_edited(shop, priority=7, unique_key="held")

    assert (await shop.get(NEW)).priority == 0


async def test_a_limit_that_is_not_there_is_refused_and_nothing_changed(shop: Shop) -> None:
    with pytest.raises(LimitNotFound):
        await put_in_and_edited(shop, priority=7, limits=named("none"))

    assert (await shop.get(NEW)).priority == 0


async def test_what_loses_its_limits_is_claimed(shop: Shop) -> None:
    await set_limit(shop, concurrency=1)
    worker = await shop.worker()
    edit = Edit(principal=shop.principal, task_id=NEW, changes={"limits": None})

    await asyncio.gather(shop.submit(id=NEW, limits=named()), shop.engine.run(edit))

    assert [task.id for task in await shop.claim(worker)] == [NEW]
