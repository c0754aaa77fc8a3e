"""Rows put straight into the tables, so that reads are tested by themselves."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import insert
from uuid_utils import uuid7

from tests.domain.made import PLAIN
from treadle.wire.status import LEASED, TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import jobs, lane_counts, lanes, task_specs, tasks, workers

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER = str(uuid7())


def task_row(seq: int, **given: Any) -> dict[str, Any]:
    """Return a row of `tasks`; what a status demands is filled in."""
    status = given.get("status", "pending")
    row: dict[str, Any] = {
        **PLAIN,
        "seq": seq,
        "id": str(uuid7()),
        "job_num": 1,
        "lane": 1,
        "job_name": "lab:tasks:add",
        "room": "lab",
        "status": status,
        "priority": 0,
        "due_at": START,
        "created_at": START,
        "updated_at": START + timedelta(seconds=seq),
        "max_retries": 0,
        "max_requeues": 0,
        "weight": 1,
        "on_failure": "hold",
        "blocked": False,
        "version": 1,
        "run_id": -1,
        "unfenced": False,
        "retry_count": 0,
        "requeue_count": 0,
        "cancel_requested": False,
        "settled": False,
        "worker_id": None,
        "taken_until": None,
        "claimed_at": None,
        "completed_at": None,
    }
    if status in LEASED:
        row |= {"run_id": 0, "worker_id": WORKER, "taken_until": START, "claimed_at": START}
    if status in TERMINAL:
        row |= {"completed_at": START}
    return row | given


class StoredTasks:
    """A store with one job of two pools, a fair job of two rooms, and whatever tasks a test puts in."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.lanes = {1: (1, "", ""), 2: (1, "", "gpu"), 3: (2, "lab", ""), 4: (2, "den", "")}

    async def prepare(self) -> None:
        common = {"category": "tasks", "schema": "{}", "schema_version": 1, "defaults": "{}", "created_at": START,
                  "retain": True, "paused": False, "version": 1}  # fmt: skip
        async with self.store.write() as tx:
            await tx.connection.execute(
                insert(jobs),
                [
                    {"num": 1, "id": str(uuid7()), "room": "lab", "name": "add", "fair": None, **common},
                    {"num": 2, "id": str(uuid7()), "room": "@global", "name": "fair", "fair": "room", **common},
                ],
            )
            await tx.connection.execute(
                insert(workers),
                {"id": WORKER, "owner": "admin", "created_at": START, "last_heartbeat": START, "concurrency": 4,
                 "min_concurrency": 0, "state": "online"},
            )  # fmt: skip

        await self.add_lanes(self.lanes)

    async def add_lanes(self, lanes_: dict[int, tuple[int, str, str]]) -> None:
        """Insert lanes, each with the number of its job, a room and a pool."""
        rows = [{"id": i, "job_num": job, "room": room, "pool": pool} for i, (job, room, pool) in lanes_.items()]
        async with self.store.write() as tx:
            await tx.connection.execute(insert(lanes), rows)

    async def put(self, rows: Sequence[dict[str, Any]]) -> None:
        """Insert tasks and keep the counts."""
        counts: dict[tuple[int, str, int], int] = {}
        for row in rows:
            key = (row["lane"], str(row["status"]), row["priority"] if row["status"] == "pending" else 0)
            counts[key] = counts.get(key, 0) + 1
        async with self.store.write() as tx:
            for start in range(0, len(rows), 500):
                some = rows[start : start + 500]
                for table in (tasks, task_specs):
                    own = [{name: value for name, value in row.items() if name in table.c} for row in some]
                    await tx.connection.execute(insert(table), own)
            await tx.connection.execute(
                insert(lane_counts),
                [{"lane": lane, "status": s, "priority": p, "n": n} for (lane, s, p), n in counts.items()],
            )


def random_rows(n: int, seed: int = 1) -> list[dict[str, Any]]:
    """Return tasks of every status in every lane, with many equal priorities and times."""
    draw = random.Random(seed)
    rows = []
    for seq in range(1, n + 1):
        lane = draw.choice([1, 1, 2, 3, 4])
        status = draw.choice(["pending"] * 4 + [str(s) for s in Status])
        fair = lane > 2
        rows.append(
            task_row(
                seq,
                lane=lane,
                job_num=2 if fair else 1,
                job_name="@global:tasks:fair" if fair else "lab:tasks:add",
                room=("lab" if lane == 3 else "den") if fair else "lab",
                pool="gpu" if lane == 2 else None,
                status=status,
                priority=draw.choice([-1, 0, 0, 5]),
                due_at=START + timedelta(seconds=draw.choice([0, 0, 1, 2, 3600])),
                blocked=draw.random() < 0.2,
            )
        )
    return rows


def queue_of(task: Task) -> tuple[int, str]:
    """Return in which queue positions are counted: a fair job's are apart by room."""
    return (task.job_num, task.room if task.job_num == 2 else "")


@pytest.fixture
async def stored(store: SqlStore) -> StoredTasks:
    stored = StoredTasks(store)
    await stored.prepare()
    return stored
