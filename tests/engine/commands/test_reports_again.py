"""C7: a report that is sent again is answered as the first was, when it is the same one, and else is refused."""

import json

import pytest

from tests.engine.conftest import Shop
from treadle.wire.status import Reason
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.run_report import in_order
from treadle_server.errors import StaleRun

pytestmark = pytest.mark.anyio

BIG = 2**70


async def begun(shop: Shop) -> Task:
    worker = await shop.worker()
    await shop.submit(options={"max_retries": 1})
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    return task


@pytest.mark.parametrize("usage", [None, 2.5])
@pytest.mark.parametrize(
    ("kind", "field", "first", "again"),
    [
        ("completed", "result", '{"a":1,"b":{"c":2,"d":[{"e":1,"f":2}]}}', '{"b":{"d":[{"f":2,"e":1}],"c":2},"a":1}'),
        ("completed", "result", f'{{"a":{BIG},"b":1}}', f'{{"b":1,"a":{BIG}}}'),
        ("paused", "checkpoint", '{"a":1,"b":2}', '{"b":2,"a":1}'),
    ],
)
async def test_c7_the_order_of_keys_makes_no_other_report(shop: Shop, usage, kind, field, first, again) -> None:
    task = await begun(shop)
    if kind == "paused":
        await shop.steer(task, "pause")
    done = await shop.report(task, kind, usage=usage, **{field: first})

    repeated = await shop.report(task, kind, usage=usage, **{field: again})

    assert (repeated.version, json.loads(getattr(repeated, field))) == (done.version, json.loads(first))


@pytest.mark.parametrize(
    ("kind", "first", "other"),
    [
        ("completed", {"usage": 1.0}, {"usage": 2.0}),
        ("completed", {}, {"usage": 0.0}),
        ("completed", {"result": "[1,2]"}, {"result": "[2,1]"}),
        ("completed", {"result": f'{{"a":{BIG}}}'}, {"result": f'{{"a":{BIG + 1}}}'}),
        ("completed", {"result": '{"a":1}'}, {"result": '{"a":1.0}'}),
        ("failed", {"error": "no", "usage": 1.0}, {"error": "no"}),
        ("exception", {"reason": Reason.INTERMITTENT_TASK, "usage": 3.0}, {"reason": Reason.INTERMITTENT_TASK}),
    ],
)
async def test_c7_another_usage_or_another_value_makes_another_report(shop: Shop, kind, first, other) -> None:
    task = await begun(shop)
    await shop.report(task, kind, **first)

    with pytest.raises(StaleRun):
        await shop.report(task, kind, **other)
    before = await shop.get(task.id)
    await shop.report(task, kind, **first)
    assert await shop.get(task.id) == before


def test_keys_are_put_in_order_without_the_loss_of_a_digit() -> None:
    text = f'{{"é":{BIG},"b":[{{"z":1e300,"y":-0.0}}],"a":"e"}}'

    assert in_order(text) == f'{{"a":"e","b":[{{"y":-0.0,"z":1e+300}}],"é":{BIG}}}'
    assert in_order('{"b":1.5,"a":"\\u0001"}') == '{"a":"\\u0001","b":1.5}'
