"""A small language for tests of the engine: submit, claim, report."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.stores import opened
from treadle.wire.ids import TaskId, WorkerId
from treadle_server.access.principal import Principal
from treadle_server.clock import Clock
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import RegisterJob, RegisterWorker, ReportRun, RunReport, Steer, Submission, Submit
from treadle_server.engine.engine import Engine
from treadle_server.store.base import Tx
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks as task_table
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.heads import waiting_lanes
from treadle_server.store.transaction.load import to_task

ADMIN = Principal("admin", superuser=True)


@dataclass
class Shop:
    """An engine with one job, and short words for what is done to it."""

    engine: Engine
    principal: Principal = ADMIN
    job: str = "@global:tasks:noop"
    workers: list[WorkerId] = field(default_factory=list)

    async def register(self, name: str = "noop", *, room: str = "@global", retain: bool = True, **options: Any) -> str:
        await self.engine.run(
            RegisterJob(
                principal=self.principal,
                room=room,
                category="tasks",
                name=name,
                schema="{}",
                retain=retain,
                make_worker=False,
                **options,
            )
        )
        return f"{room}:tasks:{name}"

    async def worker(self, *jobs: str, **details: Any) -> WorkerId:
        worker = await self.engine.run(RegisterWorker(principal=self.principal, **details))
        for job in jobs or (self.job,):
            room, category, name = job.split(":", 2)
            await self.engine.run(
                RegisterJob(
                    principal=self.principal,
                    room=room,
                    category=category,
                    name=name,
                    schema="{}",
                    worker_id=worker.id,
                    retain=True,
                )
            )
        return worker.id

    async def submit(self, n: int = 1, *, job: str | None = None, room: str = "@global", **details: Any) -> list[Task]:
        options = details.pop("options", {})
        items = [
            Submission(job_name=job or self.job, payload=f'{{"n":{i}}}', content_hash=b"x", options=options, **details)
            for i in range(n)
        ]
        submitted = await self.engine.run(Submit(principal=self.principal, room=room, items=items))
        return [one.task for one in submitted]

    async def claim(self, worker: WorkerId, most: int = 1) -> list[Task]:
        return await self.engine.claims.claim(self.principal, worker, most=most)

    async def report(self, task: Task, kind: str, run_id: int | None = None, **details: Any) -> Task:
        return await self.engine.run(
            ReportRun(
                principal=self.principal,
                worker_id=task.worker_id,
                task_id=task.id,
                run_id=task.run_id if run_id is None else run_id,
                report=RunReport(kind=kind, **details),
            )
        )

    async def run(self, task: Task, kind: str = "completed", **details: Any) -> Task:
        await self.report(task, "started")
        return await self.report(task, kind, **details)

    async def steer(self, task: Task, action: str, **details: Any) -> Task:
        return await self.engine.run(Steer(principal=self.principal, task_id=task.id, action=action, **details))

    async def get(self, task_id: TaskId) -> Task:
        async with self.engine.store.read() as connection:
            found = select_tasks().where(task_table.c.id == task_id)
            row = (await connection.execute(found)).one()
        return to_task(row)


@asynccontextmanager
async def two_shops(
    url: str, clock: Clock | None = None, other_clock: Clock | None = None
) -> AsyncIterator[tuple[Shop, Shop]]:
    """The same job, seen through two servers of one PostgreSQL; the second may believe another clock."""
    async with (
        opened(url, 2) as (one, other),
        Engine(one, clock=clock).running() as first,
        Engine(other, clock=other_clock or clock).running() as second,
    ):
        shops = Shop(first), Shop(second)
        await shops[0].register()
        yield shops


@pytest.fixture
async def shop(engine: Engine) -> Shop:
    shop = Shop(engine)
    await shop.register()
    return shop


@pytest.fixture
async def other(database_url: str) -> AsyncIterator[SqlStore]:
    """Another server's store on the same database."""
    async with opened(database_url, 1) as [store]:
        yield store


@pytest.fixture
async def shops(postgres_database: str, clock: FakeClock) -> AsyncIterator[list[Shop]]:
    """The same job, seen through two servers."""
    async with two_shops(postgres_database, clock) as found:
        yield list(found)


@pytest.fixture
async def shops_by_its_clock(postgres_database: str) -> AsyncIterator[list[Shop]]:
    """The same job, seen through two servers, by the database's own clock."""
    async with two_shops(postgres_database) as found:
        yield list(found)


async def look(shop: Shop) -> None:
    """Do what the poller does every second: find what another server has made claimable."""
    async with shop.engine.store.read() as connection:
        shop.engine.wake(await waiting_lanes(Tx(connection, "postgresql")))
