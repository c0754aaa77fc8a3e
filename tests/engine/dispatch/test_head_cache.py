"""The head cache is never stale: whatever happens between two claims, each hands out what a fresh read would."""

import asyncio
import copy
import random
from collections import Counter
from datetime import timedelta

import pytest
import sqlalchemy as sa

from tests.engine.conftest import ADMIN, Shop
from tests.engine.dispatch.dealing import Ask, Queue, deal, read_queues
from treadle_server.engine.commands import (
    Edit,
    ExpireLeases,
    FindWorker,
    MissDeadlines,
    PatchJob,
    PromoteDue,
    ReleaseHolds,
    ReportMany,
    RunReport,
    Submission,
    SubmitEach,
)
from treadle_server.engine.commands.hand_back import hand_back
from treadle_server.engine.dispatch import dispatcher as dispatcher_module
from treadle_server.engine.dispatch import head_cache as head_cache_module
from treadle_server.engine.dispatch.fairness import match
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.errors import Refused
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks

pytestmark = pytest.mark.anyio

STEPS = 70
JOBS = ("@global:tasks:noop", "@global:tasks:fair", "@global:tasks:other")
TARGETS = ("a", "b", "c")


class Witness:
    """Stands by at every claim, and compares what is handed out with what every row says at that moment."""

    def __init__(self, engine, clock, monkeypatch) -> None:
        self.engine = engine
        self.clock = clock
        self.claims: Counter[str] = Counter()
        self.failures: list[str] = []
        """What went wrong; the writer would only log it where a claim is nobody's request."""
        self.queues: dict[int, Queue] = {}
        self._assign = engine.dispatcher.assign
        monkeypatch.setattr(engine.dispatcher, "assign", self.assign)
        monkeypatch.setattr(dispatcher_module, "match", self.match)
        self.read_lanes: set[int] = set()
        """What was read for this claim, and not known from before."""
        self._read = engine.dispatcher.head_cache._read
        monkeypatch.setattr(engine.dispatcher.head_cache, "_read", self.read)

    async def read(self, tx, lanes, *details):
        self.read_lanes.update(lanes)
        return await self._read(tx, lanes, *details)

    async def assign(self, tx, now):
        dispatcher = self.engine.dispatcher
        waited = [*dispatcher._waiting, *dispatcher._slots]
        turns = copy.deepcopy(dispatcher._orders.turns)
        self.queues = await read_queues(tx, now)
        self.read_lanes = set()

        assignments = await self._assign(tx, now)

        if not assignments.changes:
            asks = [Ask.of(demand) for demand in waited if demand.room() > 0 and not dispatcher._owes(demand)]
            if missed := deal(self.queues.values(), asks, turns):
                self.failures.append(f"nothing was handed out where there was {missed}")
        return assignments

    def match(self, orders, demands, gate=None):
        asks, expected_turns = [Ask.of(demand) for demand in demands], copy.deepcopy(orders.turns)

        matched = match(orders, demands, gate)

        given = [(demand.worker_id, task.seq) for demand, task in matched]
        expected = deal(copy.deepcopy(self.queues).values(), asks, expected_turns)
        if given != expected[: len(given)]:
            self.failures.append(f"{given} was handed out where {expected} stood at the heads")
        self.claims["handed out"] += len(given)
        self.claims["known"] += sum(task.lane not in self.read_lanes for _, task in matched)
        self.claims["stopped short"] += len(given) < len(expected)
        return matched


class Walk:
    """Random requests of every kind that changes a queue, several at once so that they share a batch."""

    def __init__(self, shop: Shop, clock, seed: int) -> None:
        self.shop = shop
        self.engine = shop.engine
        self.clock = clock
        self.random = random.Random(seed)
        self.known = []
        self.held = []
        self.slots = []
        self.other = None

    async def prepare(self, other: SqlStore) -> None:
        self.other = other
        await self.shop.register("fair", fair="room")
        await self.shop.register("other")
        self.http = [
            await self.shop.worker(*JOBS),
            await self.shop.worker(*JOBS, pool="gpu", concurrency=4),
            await self.shop.worker(JOBS[2], concurrency=12, min_concurrency=6),
        ]
        self.giant = await self.shop.worker(*JOBS, pool="gpu")
        self.held_by = [
            (await self.shop.worker(*JOBS, concurrency=3), 3, 0, 0),
            (await self.shop.worker(*JOBS, pool="gpu", concurrency=10), 10, 0, None),
            (await self.shop.worker(*JOBS[:2], concurrency=8, min_concurrency=4), 8, 4, 2),
        ]

    async def step(self) -> None:
        self.clock.advance(self.random.choice([0, 0, 0, 0.002, 0.5, 3]))
        for slot in self.engine.dispatcher.slots:
            if self.random.random() < 0.7:
                slot.presence.at = self.clock.passed  # as when it beats
        if self.random.random() < 0.1:
            await self._stranger()
        if self.random.random() < 0.7:
            # As after a while in which no other server was seen.
            await self.engine.store.seek_exclusive()
        requests = [self.request() for _ in range(self.random.randint(1, 4))]
        for outcome in await asyncio.gather(*requests, return_exceptions=True):
            if isinstance(outcome, BaseException) and not isinstance(outcome, Refused):
                raise outcome

    async def request(self) -> None:
        kinds = {
            "submit": 6, "line_up": 4, "claim": 9, "drain": 1, "complete": 8, "fail": 1, "give_back": 1, "steer": 1.5,
            "edit": 1.5, "pause_queue": 0.4, "sweep": 1, "sit": 1, "poll": 0.3,
        }  # fmt: skip
        [kind] = self.random.choices(list(kinds), list(kinds.values()))
        await getattr(self, f"_{kind}")()

    async def _submit(self) -> None:
        draw = self.random
        job, room, many = draw.choice(JOBS), draw.choice(["r1", "r2"]), draw.choice([1, 2, 5, 14, 30])
        priority = draw.choice([0, 0, 0, 0, 1, -1])
        items = [self._submission(job, priority) for _ in range(many)]
        answers = await self.engine.run(SubmitEach(principal=ADMIN, room=room, items=items))
        self.known += [answer.task.id for answer in answers]

    async def _line_up(self) -> None:
        """Put in nothing but what a target may block: where it does, no queue is woken."""
        draw = self.random
        job, room, target = draw.choice(JOBS), draw.choice(["r1", "r2"]), draw.choice(TARGETS)
        items = [self._submission(job, 0, target) for _ in range(draw.choice([1, 1, 2]))]
        answers = await self.engine.run(SubmitEach(principal=ADMIN, room=room, items=items))
        self.known += [answer.task.id for answer in answers]

    def _submission(self, job: str, priority: int, target: str | None = None) -> Submission:
        draw = self.random
        options = {
            "priority": priority + draw.choice([0] * 12 + [1]),
            "weight": draw.choice([1] * 12 + [2, 5, 9]),
            "pool": draw.choice([None] * 4 + ["gpu"]),
            "max_retries": 3,
            "max_requeues": 3,
            "lease_seconds": 10.0,
        }
        is_due_soon = draw.random() < 0.05
        return Submission(
            job_name=job,
            payload='{"n":1}',
            content_hash=b"x",
            options=options,
            delay=draw.choice([None] * 12 + [2]),
            deadline=self.clock.now() + timedelta(seconds=draw.choice([3, 4, 20])) if is_due_soon else None,
            target=draw.choice(TARGETS) if target is None and draw.random() < 0.04 else target,
        )

    async def _claim(self) -> None:
        worker = self.random.choice(self.http)
        claimed = await self.shop.claim(worker, self.random.choice([1, 1, 3, 10, 25]))
        self.held += [(task.id, task.run_id, worker) for task in claimed]

    async def _drain(self) -> None:
        """Let one worker take all that there is: queues are known to be empty then, and the targets are held."""
        while claimed := await self.shop.claim(self.giant, 50):
            self.held += [(task.id, task.run_id, self.giant) for task in claimed if task.target_num is not None]
            await self._end(self.giant, [task for task in claimed if task.target_num is None])

    async def _end(self, worker, claimed) -> None:
        said = [(task.id, task.run_id, RunReport(kind="completed", starts=True)) for task in claimed]
        await self.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said))

    def _some_held(self):
        """Return one worker's runs, or some of them, and forget them."""
        if not self.held:
            return None, []
        worker = self.random.choice(self.held)[2]
        mine = [run for run in self.held if run[2] == worker][: self.random.choice([1, 3, 20])]
        self.held = [run for run in self.held if run not in mine]
        return worker, mine

    async def _report(self, report: RunReport) -> None:
        worker, runs = self._some_held()
        said = [(task_id, run_id, report) for task_id, run_id, _ in runs]
        await self.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said))

    async def _complete(self) -> None:
        await self._report(RunReport(kind="completed", starts=True, result="1"))

    async def _fail(self) -> None:
        retry_after = self.random.choice([0, 0, 2])
        await self._report(RunReport(kind="failed", starts=True, error="boom", retry_after=retry_after))

    async def _give_back(self) -> None:
        worker, runs = self._some_held()
        back = [(task_id, run_id) for task_id, run_id, _ in runs]
        await self.engine.run(hand_back(ADMIN, worker, back))

    def _some_task(self):
        """Return a task, more often than not one that waits in the head cache."""
        kept = [task.id for cached in self.engine.dispatcher.head_cache._heads.values() for task in cached.tasks]
        return self.random.choice(kept if kept and self.random.random() < 0.7 else self.known[-60:])

    async def _steer(self) -> None:
        if self.known:
            task = await self.shop.get(self._some_task())
            await self.shop.steer(task, self.random.choice(["cancel", "pause", "resume", "rerun", "resolve"]))

    async def _edit(self) -> None:
        if self.known:
            changes = self.random.choice(
                [
                    {"priority": self.random.choice([-2, 0, 2])},
                    {"weight": self.random.choice([1, 9])},
                    {"target": self.random.choice(["a", None])},
                    {"scheduled_at": self.clock.now() + timedelta(seconds=self.random.choice([-60, 0, 3]))},
                ]
            )
            await self.engine.run(Edit(principal=ADMIN, task_id=self._some_task(), changes=changes))

    async def _pause_queue(self) -> None:
        paused = self.random.random() < 0.25
        await self.engine.run(
            PatchJob(principal=ADMIN, job_name=self.random.choice(JOBS), room="@global", paused=paused)
        )

    async def _sweep(self) -> None:
        await self.engine.run(self.random.choice([PromoteDue, ExpireLeases, MissDeadlines, ReleaseHolds])())

    async def _sit(self) -> None:
        """Let a worker on the socket come, or go."""
        if self.slots and self.random.random() < 0.4:
            self.engine.close_slot(self.slots.pop())
            return
        worker_id, concurrency, least, prefetch = self.random.choice(self.held_by)
        if any(slot.worker_id == worker_id for slot in self.slots):
            return
        worker = await self.engine.run(FindWorker(principal=ADMIN, worker_id=worker_id))
        slot = WorkerSlot(
            worker_id, frozenset(worker.jobs), worker.pool, concurrency, least, prefetch, deliver=self._take
        )
        slot.hold({(task_id, run_id): 1 for task_id, run_id, holder in self.held if holder == worker_id})
        self.slots.append(slot)
        self.engine.open_slot(slot)

    def _take(self, claimed) -> None:
        self.held += [(task.id, task.run_id, task.worker_id) for task in claimed]

    async def _stranger(self) -> None:
        """Let another process change the order of a queue behind the writer's back, while that does nothing."""
        # A slot that owed a beat was given one without a word to the writer, who may sleep although it can serve now.
        self.engine.slot_changed()
        while self.engine.dispatcher.can_serve or self.engine.store.connections_checked_out():  # noqa: ASYNC110 - no event
            await asyncio.sleep(0)
        if self.known:
            waits = (tasks.c.id == self._some_task(), tasks.c.status == "pending", tasks.c.target_num.is_(None))
            due_at = self.clock.now() + timedelta(seconds=self.random.choice([-90, 1]))
            async with self.other.write() as tx:
                changed = {"due_at": due_at, "version": tasks.c.version + 1}
                await tx.connection.execute(tasks.update().where(*waits).values(changed))

    async def _poll(self) -> None:
        async with self.engine.store.read() as connection:
            found = await connection.execute(sa.select(tasks.c.lane).where(tasks.c.status == "pending").distinct())
        self.engine.wake(set(found.scalars()))

    async def finish(self) -> int:
        """Let everything that waits be claimed, and return how much of it is left."""
        for job in JOBS:
            await self.engine.run(PatchJob(principal=ADMIN, job_name=job, room="@global", paused=False))
        await self._poll()
        while claimed := await self.shop.claim(self.giant, 50):
            await self._end(self.giant, claimed)
        async with self.engine.store.write() as tx:
            return sum(len(queue.tasks) for queue in (await read_queues(tx, self.clock.now())).values())


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.crossed) for n in (1, 2, 3, 4))])
async def test_each_claim_hands_out_what_a_fresh_read_of_all_rows_gives_l9_c11_e5(
    shop, clock, monkeypatch, other, seed
) -> None:
    """G2, L2, L9, C11, E5: in each lane's order, jobs in turn, one of a target, nothing overdue, nothing paused."""
    monkeypatch.setattr(head_cache_module, "MOST_OF_LANE", 30)
    monkeypatch.setattr(head_cache_module, "MOST", 150)
    witness = Witness(shop.engine, clock, monkeypatch)
    walk = Walk(shop, clock, seed)
    await walk.prepare(other)

    for _ in range(STEPS):
        await walk.step()
        assert witness.failures == []

    assert await walk.finish() == 0
    assert witness.failures == []
    seen = witness.claims
    assert seen["handed out"] > STEPS
    assert seen["known"] >= 10, "some of what was handed out had been read before"
