"""A small language for tests of schedules: set one, let its ticks come, run what it makes."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest
import sqlalchemy as sa

from tests.api.conftest import lab, root, user
from tests.conftest import FakeClock
from tests.engine.conftest import Shop, shop
from treadle.wire.ids import WorkerId
from treadle_server.access.principal import Principal
from treadle_server.domain.schedules import Content, Schedule
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import DeleteSchedule, PauseSchedule, RunSchedule, SetSchedule
from treadle_server.engine.commands.schedules import WasSet
from treadle_server.services.promoter import Promoter
from treadle_server.services.scheduler import Scheduler
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.tables import schedule_ticks
from treadle_server.store.tables import tasks as task_table
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.load import to_task

__all__ = ["Ticker", "lab", "root", "shop", "user"]


@dataclass
class Ticker:
    """One schedule of a shop, by name, with its scheduler and promoter in hand."""

    shop: Shop
    clock: FakeClock
    name: str = "nightly"
    room: str = "@global"

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.shop.engine)
        self.promoter = Promoter(self.shop.engine)
        self._worker: WorkerId | None = None

    def command(self, **changes: Any) -> SetSchedule:
        content = {
            "payload": '{"n": 1}',
            "schema_version": 1,
            "template": "{}",
            "cron": None,
            "zone": None,
            "interval_seconds": 60.0,
            "jitter_seconds": 0.0,
            "missed": "late",
        }
        given = {name: changes.pop(name) for name in list(changes) if name in content}
        if given.get("cron"):
            given = {"interval_seconds": None, "zone": "UTC", **given}
        principal: Principal = changes.pop("principal", self.shop.principal)
        return SetSchedule(
            principal=principal,
            room=self.room,
            name=self.name,
            job_name=changes.pop("job_name", self.shop.job),
            content=Content(**{**content, **given}),
            **changes,
        )

    async def set(self, **changes: Any) -> WasSet:
        return await self.shop.engine.run(self.command(**changes))

    async def begin(self, **changes: Any) -> datetime:
        """Set the schedule, and let its first tick come after a minute; return when it was set."""
        start = self.clock.now()
        await self.set(**changes)
        await self.pass_time(60)
        return start

    async def pause(self, *, paused: bool = True) -> Schedule:
        command = PauseSchedule(principal=self.shop.principal, room=self.room, name=self.name, paused=paused)
        return await self.shop.engine.run(command)

    async def run_now(self) -> Task:
        return await self.shop.engine.run(RunSchedule(principal=self.shop.principal, room=self.room, name=self.name))

    async def delete(self) -> None:
        await self.shop.engine.run(DeleteSchedule(principal=self.shop.principal, room=self.room, name=self.name))

    async def get(self) -> Schedule:
        async with self.shop.engine.store.read() as connection:
            return (await read_schedules.get(connection, room=self.room, name=self.name)).schedule

    async def turn(self) -> None:
        """Let the services do what is due, as they do by themselves on a real clock."""
        while await self.scheduler.turn() == 0:
            pass
        await self.promoter.turn()

    async def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        await self.turn()

    async def tasks(self) -> list[Task]:
        """Everything that was made, the first first."""
        async with self.shop.engine.store.read() as connection:
            made = select_tasks().where(task_table.c.schedule_id.is_not(None))
            rows = await connection.execute(made.order_by(task_table.c.seq))
            return [to_task(row) for row in rows]

    async def ticks(self) -> list[datetime]:
        """The ticks for which tasks were made, in order."""
        async with self.shop.engine.store.read() as connection:
            found = await connection.execute(sa.select(schedule_ticks.c.tick).order_by(schedule_ticks.c.tick))
            return list(found.scalars())

    async def take(self) -> Task:
        """Claim and start the one task that is there."""
        if self._worker is None:
            self._worker = await self.shop.worker()
        [claimed] = await self.shop.claim(self._worker, 5)
        await self.shop.report(claimed, "started")
        return claimed

    async def finish(self, kind: str = "completed", **details: Any) -> Task:
        return await self.shop.report(await self.take(), kind, **details)


@pytest.fixture
def ticker(shop: Shop, clock: FakeClock) -> Ticker:
    return Ticker(shop, clock)


def seconds(ticks: Iterable[datetime], since: datetime) -> list[float]:
    """Ticks as seconds since an instant."""
    return [(tick - since).total_seconds() for tick in ticks]
