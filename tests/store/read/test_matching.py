"""Filters and orders in memory, compared with what the database says of the same tasks."""

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import orjson
import pytest
from sqlalchemy import select, update
from uuid_utils import uuid7

from tests.store.read.conftest import START, WORKER, StoredTasks, random_rows
from treadle.wire.filters import TaskFilter
from treadle.wire.status import Status
from treadle_server.domain.tasks import Task
from treadle_server.domain.visibility import Visibility
from treadle_server.store.read import filters
from treadle_server.store.read.filters import TIMES
from treadle_server.store.read.matching import matcher
from treadle_server.store.read.orders import ALL, ORDERS, rank_at, rank_of, sort_key_of, whole_order
from treadle_server.store.tables import tasks, workers
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task
from treadle_server.store.transaction.tags import insert_tags

TAGS: list[dict[str, Any] | None] = [
    None,
    {"region": {"name": "eu"}, "n": 3},
    {"region": ["eu", "us"], "n": 3.0},
    {"region": {"name": "EU"}, "ok": True, "none": None},
]
FLOWS = ["019aa5c0-0000-7000-8000-00000000000a", "019aa5c0-0000-7000-8000-00000000000b"]
HOURS = [START + timedelta(hours=hours) for hours in range(-1, 4)]
WANTED_TAGS = ["region", "region=eu", "region.name", "region.name=eu", "region.name=EU", "n=3", "ok=true", "none=null"]
SIGHTS = [None, Visibility(), Visibility(frozenset({"lab"})), Visibility(frozenset({"x"}), ("d", "@"))]


async def various(stored: StoredTasks, draw: random.Random) -> list[Task]:
    """Put in tasks that differ in all that filters look at, and return them as they are read."""
    rows = random_rows(120, seed=draw.randrange(1 << 30))
    for row in rows:
        tags = draw.choice(TAGS)
        row["tags"] = None if tags is None else orjson.dumps(tags).decode()
        row["target"] = draw.choice([None, "gpu", "GPU"])
        row["claimed_at"] = row["claimed_at"] and row["due_at"]
        row["created_at"] = draw.choice(HOURS)
        row["started_at"] = draw.choice([None, *HOURS])
        row["completed_at"] = row["completed_at"] and draw.choice(HOURS)
        row["run_id"] = max(row["run_id"], draw.choice([-1, 0, 1, 5]))
        row["error"] = draw.choice([None, "ValueError: no", "ValueError", "ValueErrors: x", "boom", "KeyError: 'ü'"])
        row["reason"] = draw.choice([None, "error", "timeout", "claim-expired"])
        row["worker_id"] = row["worker_id"] or draw.choice([None, WORKER])
        row["updated_at"] = row["due_at"]
        row["flow_id"] = draw.choice([None, *FLOWS])
        if draw.random() < 0.3:
            row["id"] = str(uuid7())[:-4] + f"{draw.randrange(1 << 16):04x}"
    await stored.put(rows)
    async with stored.store.write() as tx:
        every = select_tasks().order_by(tasks.c.seq)
        found = [to_task(row) for row in await tx.connection.execute(every)]
        await insert_tags(tx, found)
    return found


def some_filters(draw: random.Random, found: list[Task]) -> Iterator[TaskFilter]:
    """Yield filters of up to four parts, of what there is and of what is not."""
    for _ in range(150):
        some_id = draw.choice(found).id
        parts: dict[str, Any] = {
            "room": draw.choice(["lab", "den", "none"]),
            "status": draw.sample([str(status) for status in Status], draw.randrange(1, 4)),
            "job": draw.choice(["lab:tasks:add", "@global:tasks:fair", "lab:tasks:none", "nothing"]),
            "target": draw.choice(["gpu", "GPU", "none"]),
            "worker": draw.choice([WORKER, WORKER.upper(), str(uuid7())]),
            "tag": draw.sample(WANTED_TAGS, draw.choice([1, 1, 2])),
            **{f"{name}_{side}": draw.choice(HOURS) for name in TIMES for side in ("from", "until")},
            "least_tries": draw.choice([0, 1, 2, 6]),
            "most_tries": draw.choice([0, 1, 5]),
            "least_seconds": draw.choice([0, 0.5, 3600, 1e8]),
            "most_seconds": draw.choice([0, 3600, 7200.000001]),
            "not_room": draw.sample(["lab", "den", "none"], 2),
            "not_job": draw.sample(["lab:tasks:add", "lab:tasks:none"], 1),
            "not_target": draw.sample(["gpu", "GPU", "none"], 2),
            "not_worker": [draw.choice([WORKER, str(uuid7())])],
            "error": draw.choice(["ValueError", "timeout", "boom", "None"]),
            "not_error": draw.sample(["ValueError", "KeyError", "claim-expired"], 2),
            "not_tag": draw.sample(WANTED_TAGS, draw.choice([1, 2])),
            "flow": draw.choice([*FLOWS, FLOWS[0][:9].upper(), FLOWS[1].replace("-", ""), "f"]),
            "id": draw.choice([some_id[:9], some_id[:13].upper(), some_id.replace("-", ""), some_id, "f"]),
        }
        names = draw.sample(sorted(parts), draw.choice([0, 1, 1, 2, 3, 4]))
        yield filters.seen(TaskFilter(**{name: parts[name] for name in names}), draw.choice(SIGHTS))


@pytest.mark.parametrize("seed", range(4))
async def test_a_filter_means_the_same_in_memory_as_in_the_database(stored: StoredTasks, seed: int):
    draw = random.Random(seed)
    found = await various(stored, draw)

    async with stored.store.read() as connection:
        for wanted in some_filters(draw, found):
            statement = select(tasks.c.seq).where(*await filters.conditions(connection, wanted))
            said = set((await connection.execute(statement)).scalars())
            matches = matcher(wanted)
            assert matches is not None
            assert {task.seq for task in found if matches(task)} == said, wanted


async def test_a_text_and_a_workers_name_are_left_to_the_database():
    assert matcher(TaskFilter(text="x", status=[Status.PENDING])) is None
    assert matcher(TaskFilter(worker="web-1")) is None
    assert matcher(TaskFilter(failure="0" * 16)) is None
    assert matcher(TaskFilter(not_worker=[WORKER, "web-1"])) is None


async def test_a_worker_is_found_by_its_name(stored: StoredTasks):
    found = await various(stored, random.Random("names"))
    async with stored.store.write() as tx:
        await tx.connection.execute(update(workers).where(workers.c.id == WORKER).values(name="web-1"))
    same = [({"worker": "web-1"}, {"worker": WORKER}), ({"not_worker": ["web-1"]}, {"not_worker": [WORKER]})]

    async with stored.store.read() as connection:
        for by_name, by_id in same:
            where = await filters.conditions(connection, TaskFilter(**by_name))
            said = set((await connection.execute(select(tasks.c.seq).where(*where))).scalars())
            matches = matcher(TaskFilter(**by_id))
            assert matches is not None
            assert said == {task.seq for task in found if matches(task)} != set()


@pytest.mark.parametrize("order", ORDERS)
async def test_ranks_are_in_the_order_of_the_database(stored: StoredTasks, order: str):
    found = await various(stored, random.Random(order))
    rank = rank_of(order)

    async with stored.store.read() as connection:
        said = list((await connection.execute(select(tasks.c.seq).order_by(*whole_order(order)))).scalars())

    assert [task.seq for task in sorted(found, key=rank)] == said
    assert all(rank(task) == rank_at(sort_key_of(task, order), order) for task in found)
    assert {task.status for task in found} == ALL
