"""What one read tells is of one moment, on PostgreSQL too, whatever is committed between its statements."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from tests.engine.conftest import Shop
from tests.engine.test_limits import named, set_limit
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import Status
from treadle_server.domain.flows import FlowWanted
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.prune import PruneTasks
from treadle_server.store.read import failures, flows, jobs, limits, runs, stats, targets, tasks, workers
from treadle_server.store.read.history import happenings
from treadle_server.store.read.windows import ahead_of, window
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

FLOW = str(uuid4())
LATER = datetime(2099, 1, 1, tzinfo=UTC)


@dataclass
class Scene:
    """Tasks that run, wait, and have failed, and what comes next with them."""

    shop: Shop
    worker: Any
    started: list[Task]
    broken: Task

    async def go_on(self) -> None:
        """End what runs, begin what waits, submit more: everything that a list tells of is different then."""
        ended, again, *_ = self.started
        await self.shop.report(ended, "completed")
        await self.shop.report(again, "exception", reason="worker-shutdown")
        await self.shop.engine.run(PruneTasks(seqs=[self.broken.seq], cutoffs={Status.FAILED: LATER}))
        await self.shop.submit(3, target="mill", limits=named(), flow=FlowWanted(FLOW))
        await self.shop.register("more")
        await self.shop.worker()
        await self.shop.claim(self.worker, 10)


@pytest.fixture
async def scene(shop: Shop) -> Scene:
    await set_limit(shop, concurrency=3)
    worker = await shop.worker(concurrency=4)
    flow = FlowWanted(FLOW)
    await shop.submit(2, limits=named(), flow=flow, options={"max_requeues": 3})
    await shop.submit(3, target="press", limits=named(), flow=flow, options={"max_requeues": 3})
    started = await shop.claim(worker, 3)
    for task in started:
        await shop.report(task, "started")
    [broken] = await shop.submit(1, options={"priority": 9})
    await shop.run((await shop.claim(worker, 1))[0], "failed", error="ValueError: no")
    return Scene(shop, worker, started, broken)


Question = Callable[[AsyncConnection, Scene], Awaitable[Any]]


async def _window(connection: AsyncConnection, scene: Scene) -> Any:
    wanted = Window(order="position", limit=100)
    found = await window(connection, wanted)
    total = (await stats.totals(connection)).counts
    return await tasks.see(connection, found), total, await ahead_of(connection, wanted, None, found, len(found))


async def _history(connection: AsyncConnection, scene: Scene) -> Any:
    task = await tasks.get(connection, scene.started[1].id)
    known = await runs.of_task(connection, task)
    return known, happenings(task, known)


async def _jobs(connection: AsyncConnection, scene: Scene) -> Any:
    found, total = await jobs.page(connection, limit=1)
    return await jobs.view(connection, found), total


async def _workers(connection: AsyncConnection, scene: Scene) -> Any:
    found, total = await workers.page(connection, limit=1)
    return await workers.view(connection, found), total


async def _flow(connection: AsyncConnection, scene: Scene) -> Any:
    picture = await flows.shown(connection, FLOW)
    return await flows.find(connection, FLOW), [tuple(row) for row in picture.tasks], picture.edges, picture.ran


QUESTIONS: dict[str, Question] = {
    "a window of the list": _window,
    "a page of the list": lambda connection, _: tasks.page(connection, TaskFilter(status=["running"]), limit=2),
    "a task's history": _history,
    "queues": _jobs,
    "workers": _workers,
    "targets": lambda connection, _: targets.page(connection, room="@global", limit=1),
    "limits": lambda connection, _: limits.page(connection, room="@global", limit=10),
    "a flow": _flow,
    "failures": lambda connection, scene: failures.groups(connection, scene.shop.engine.clock.now()),
    "totals": lambda connection, _: stats.totals(connection),
}


async def answered(scene: Scene, ask: Question, *, goes_on: bool = False) -> tuple[Any, int]:
    """Return the answer and how many statements it took; it may go on behind the first of them."""
    passed = 0
    real = AsyncConnection.execute

    async def execute(self: AsyncConnection, *args: Any, **given: Any) -> Any:
        nonlocal passed
        found = await real(self, *args, **given)
        # The engine reads, too, by connections of its own.
        passed += self is connection
        if goes_on and self is connection and passed == 1:
            await scene.go_on()
        return found

    with pytest.MonkeyPatch.context() as patch:
        async with scene.shop.engine.store.read() as connection:
            patch.setattr(AsyncConnection, "execute", execute)
            return await ask(connection, scene), passed


@pytest.mark.parametrize("what", QUESTIONS)
async def test_what_is_committed_between_two_statements_of_a_read_is_not_in_its_answer(scene: Scene, what: str) -> None:
    ask = QUESTIONS[what]
    before, _ = await answered(scene, ask)

    found, statements = await answered(scene, ask, goes_on=True)

    after, _ = await answered(scene, ask)
    assert statements > 1
    assert found == before != after


@pytest.mark.postgres
async def test_a_read_has_the_time_of_the_server_and_not_of_the_role(old_url: str) -> None:
    """It has a transaction: a role's shorter limit would end a read that is only slow between two statements."""
    connection = await asyncpg.connect(old_url)
    name = await connection.fetchval("SELECT current_database()")
    await connection.execute(f'ALTER DATABASE "{name}" SET idle_in_transaction_session_timeout = 1')
    await connection.close()
    store = SqlStore(old_url)
    await store.open()

    async with store.read() as reading:
        shown = (await reading.execute(text("SHOW idle_in_transaction_session_timeout"))).scalar_one()

    assert shown == "10s"
    await store.close()
