"""What is put in by the statement of many tasks: read again as it was, whatever is the same in all of them."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from pydantic_core import from_json

from tests.engine.conftest import Shop
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.store.sqlite.writer import MOST_TOGETHER
from treadle_server.store.tables import targets
from treadle_server.store.transaction import hot

pytestmark = pytest.mark.anyio

_AT = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
_UUID = str(UUID(int=7))
_OTHERS: dict[str, tuple[Any, ...]] = {
    "lane": (2,), "job_name": ("@global:tasks:other",), "room": ("lab",),
    "status": (Status.SCHEDULED, Status.BLOCKED), "priority": (-3, 9), "max_retries": (7,), "max_requeues": (8,),
    **dict.fromkeys(("due_at", "created_at", "updated_at"), (datetime(2031, 1, 1, tzinfo=UTC),)),
    "submitter": ("somebody",), "retry_base": (0.1,), "retry_multiplier": (3.5,), "retry_randomization": (0.25,),
    "lease_seconds": (12.5,), "start_timeout": (13.0,), "heartbeat_increment": (0.0,), "schema_version": (2,),
    "timeout": (1.5, 30.0), "weight": (2,), "on_failure": ("release",), "blocked": (True,), "target_num": (1, 2),
    "target": ("lathe",), "deadline": (datetime(2040, 1, 1, tzinfo=UTC),), "pool": ("gpu",),
    "scopes": ('["a"]',), "unique_key": (None,), "limit_key": ("1:",), "budget": (4.5,), "schedule_id": (_UUID,),
    "trace": ("00-" + "1" * 32 + "-" + "2" * 16 + "-01",), "tags": ('{"a":1}', '{"b":[2]}'), "flow_id": (_UUID,),
    "on_dependency_failure": ("fail",), "arguments_from": ('{"a":"0"}',), "unmet": (1,), "telling": (1,),
}  # fmt: skip
"""What else may stand in a column than in `_task`."""

_JSON = ("payload", "tags", "scopes", "arguments_from")


def _task(seq: int) -> Task:
    return Task(
        seq=seq, id=TaskId(str(UUID(int=seq))), job_num=1, lane=1, job_name="@global:tasks:noop", room="@global",
        status=Status.PENDING, priority=0, due_at=_AT, created_at=_AT, updated_at=_AT, payload=f'{{"n":{seq}}}',
        content_hash=bytes([seq % 256]), submitter="admin", max_retries=0, max_requeues=0, retry_base=5.0,
        retry_multiplier=2.0, retry_randomization=0.0, lease_seconds=60.0, start_timeout=60.0,
        heartbeat_increment=60.0, schema_version=1,
    )  # fmt: skip


def _read(task: Task) -> Task:
    """Return the task with its JSON parsed: PostgreSQL keeps no spaces as they came."""
    parsed = {name: from_json(text) for name in _JSON if (text := getattr(task, name)) is not None}
    return replace(task, **parsed)


@pytest.mark.parametrize("count", [1, 5, MOST_TOGETHER, 2 * MOST_TOGETHER + 3])
async def test_what_is_put_in_is_read_again_whichever_columns_are_the_same_in_all(shop: Shop, count: int) -> None:
    await shop.submit()
    await shop.submit(job=await shop.register("other"))
    async with shop.engine.store.write() as tx:
        rows = [{"num": num, "room": "lab", "name": f"target{num}"} for num in (1, 2)]
        await tx.connection.execute(targets.insert(), rows)
    draw = random.Random(count)
    seq = 1000
    for _ in range(8):
        alike, differing = draw.sample(sorted(_OTHERS), 8), draw.sample(sorted(_OTHERS), 8)
        common = {name: draw.choice(_OTHERS[name]) for name in alike}
        new = []
        for _ in range(count):
            seq += 1
            own = {name: draw.choice(_OTHERS[name]) for name in differing if draw.random() < 0.5}
            task = replace(_task(seq), **common | own)
            new.append(replace(task, job_num=task.lane))

        async with shop.engine.store.write() as tx:
            await hot.insert(tx, new, names=hot.NEW_AND_BOUND)

        assert [_read(await shop.get(task.id)) for task in new] == [_read(task) for task in new]
