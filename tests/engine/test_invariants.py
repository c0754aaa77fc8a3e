"""A long random walk over everything that can be asked: what must always hold, holds after every step's commit."""

import asyncio
import random
from collections import Counter

import pytest
import sqlalchemy as sa

from treadle.wire.status import OPEN, Status
from treadle_server.engine.commands import (
    Beat,
    Edit,
    ExpireLeases,
    MissDeadlines,
    PromoteDue,
    ReleaseHolds,
    SweepWorkers,
)
from treadle_server.errors import Refused
from treadle_server.store.base import Tx
from treadle_server.store.past_runs import past_runs
from treadle_server.store.tables import holds
from treadle_server.store.task_rows import select_tasks
from treadle_server.store.transaction.counts import all_counts, fold_counts
from treadle_server.store.transaction.load import to_task

pytestmark = pytest.mark.anyio

STEPS = 60
JOBS = ("@global:tasks:noop", "@global:tasks:fair")


class Walk:
    """Random requests, several at once so that they share a batch."""

    def __init__(self, shop, clock, seed: int) -> None:
        self.shop = shop
        self.clock = clock
        self.random = random.Random(seed)
        self.workers = []
        self.known = []
        self.held = []
        self.run_rows: dict[tuple[int, int], tuple] = {}

    async def step(self) -> None:
        self.clock.advance(self.random.choice([0, 0, 0.5, 3, 30]))
        requests = [self.request() for _ in range(self.random.randint(1, 6))]
        for outcome in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Refused):
                raise outcome
        await self.check()

    async def request(self) -> None:
        kind = self.random.choice(
            ["submit"] * 3 + ["claim"] * 3 + ["report"] * 5 + ["steer"] * 3 + ["edit", "sweep", "beat", "worker"]
        )
        await getattr(self, f"_{kind}")()

    async def _submit(self) -> None:
        details = {
            "target": self.random.choice([None, None, "a", "b"]),
            "delay": self.random.choice([None, None, 5]),
            "unique_key": self.random.choice([None, None, None, "k"]),
            "options": {
                "priority": self.random.randint(-1, 1),
                "max_retries": self.random.randint(0, 2),
                "max_requeues": self.random.randint(0, 2),
                "on_failure": self.random.choice(["hold", "release"]),
                "timeout": self.random.choice([None, 20]),
            },
        }
        room = self.random.choice(["r1", "r2"])
        self.known += await self.shop.submit(
            self.random.randint(1, 4), job=self.random.choice(JOBS), room=room, **details
        )

    async def _worker(self) -> None:
        if len(self.workers) < 3:
            self.workers.append(await self.shop.worker(*JOBS))

    async def _claim(self) -> None:
        if self.workers:
            self.held += await self.shop.claim(self.random.choice(self.workers), self.random.randint(1, 3))

    async def _report(self) -> None:
        if not self.held:
            return
        task = self.random.choice(self.held)
        kind, details = self.random.choice(
            [
                ("started", {}),
                ("started", {}),
                ("completed", {"result": "1"}),
                ("failed", {"error": "boom"}),
                ("paused", {"checkpoint": "[1]"}),
                ("checkpoint", {"checkpoint": "[2]"}),
                ("returned", {}),
                ("stopped", {}),
            ]
        )
        await self.shop.report(task, kind, **details)

    async def _steer(self) -> None:
        if self.known:
            action = self.random.choice(["cancel", "pause", "resume", "rerun", "resolve"])
            await self.shop.steer(self.random.choice(self.known), action)

    async def _edit(self) -> None:
        if self.known:
            change = self.random.choice(
                [{"priority": 2}, {"target": "c"}, {"target": None}, {"scheduled_at": self.clock.now()}]
            )
            task = self.random.choice(self.known)
            await self.shop.engine.run(Edit(principal=self.shop.principal, task_id=task.id, changes=change))

    async def _sweep(self) -> None:
        for command in (PromoteDue(), ExpireLeases(), MissDeadlines(), ReleaseHolds(), SweepWorkers(60)):
            await self.shop.engine.run(command)

    async def _beat(self) -> None:
        if self.workers:
            await self.shop.engine.run(Beat(principal=self.shop.principal, worker_id=self.random.choice(self.workers)))

    async def check(self) -> None:
        async with self.shop.engine.store.read() as connection:
            now = [to_task(row) for row in await connection.execute(select_tasks())]
            counts = all_counts(self.shop.engine.store.dialect)
            kept = Counter()
            for row in await connection.execute(sa.select(counts)):
                kept[row.lane, row.status, row.priority] += row.n
            held = {row.task_seq: row.target_num for row in await connection.execute(holds.select())}
            rows = {(row.task_seq, row.run_id): tuple(row) for row in await connection.execute(past_runs().select())}
        assert {key: n for key, n in kept.items() if n} == Counter(
            (t.lane, str(t.status), t.priority if t.status is Status.PENDING else 0) for t in now
        )
        self._check_targets(now, held)
        self._check_runs(now, rows)
        keys = Counter(t.unique_key for t in now if t.unique_key and t.status in OPEN)
        assert all(n <= 2 for n in keys.values()), "one open task a key and job"

    @staticmethod
    def _check_targets(now, held) -> None:
        for num in {t.target_num for t in now if t.target_num is not None}:
            mine = [t for t in now if t.target_num == num]
            live = [t for t in mine if t.is_leased]
            free = [t for t in mine if t.status is Status.PENDING and not t.blocked]
            blockers = [t for t in mine if _holds_target(t)]
            lingering = [seq for seq, target in held.items() if target == num]
            assert len(live) + len(lingering) <= 1
            waiting = [t for t in mine if t.status is Status.PENDING]
            assert len(free) == (1 if waiting and not blockers and not lingering else 0)

    def _check_runs(self, now, rows) -> None:
        for key, row in self.run_rows.items():
            assert rows[key] == row, "a resolved run never changes"
        self.run_rows = rows
        for t in now:
            resolved = sorted(run_id for seq, run_id in rows if seq == t.seq)
            expected = t.run_id + (not t.is_leased)
            assert resolved == list(range(expected)), "every run but the open one is resolved, once"


def _holds_target(t) -> bool:
    return (
        t.is_leased
        or t.status is Status.PAUSED
        or (t.status is Status.SCHEDULED and t.has_run)
        or (t.status is Status.FAILED and t.on_failure == "hold" and not t.settled)
    )


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.crossed) for n in range(1, 6))])
async def test_counts_targets_runs_and_keys_hold_after_every_commit_l2_g2_g4(shop, clock, seed) -> None:
    await shop.register("fair", fair="room")
    walk = Walk(shop, clock, seed)
    for _ in range(STEPS):
        await walk.step()

    if shop.engine.store.dialect == "postgresql":
        async with shop.engine.store.write() as tx:
            assert await fold_counts(Tx(tx.connection, tx.dialect)) > 0
        await walk.check()
