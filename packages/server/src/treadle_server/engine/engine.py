"""The engine: takes commands, lets the writer apply many of them in one commit, answers, and publishes (G1, G7)."""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from sqlalchemy.exc import IntegrityError

from treadle.wire.ids import WorkerId
from treadle_server.clock import Clock, Drift
from treadle_server.distribution import COMMITS, ROWS, Distribution
from treadle_server.domain.tasks import Task
from treadle_server.engine.claiming import Claiming
from treadle_server.engine.commands import HandBack, Submit, SubmitEach
from treadle_server.engine.commands.base import Command
from treadle_server.engine.commands.instances import go_on
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.desk import Desk, Freed, Handover
from treadle_server.engine.express import Carried, Express
from treadle_server.engine.hooks import Hooks
from treadle_server.engine.hub import Batch, Hub
from treadle_server.engine.intake import Admitted, Intake
from treadle_server.engine.memory import Memory
from treadle_server.engine.needs import Needs
from treadle_server.engine.pending import Pending
from treadle_server.engine.principal import SYSTEM, Principal
from treadle_server.engine.reading import read
from treadle_server.engine.rules import Rules
from treadle_server.engine.seats import ClaimKey, RunKey, Seat
from treadle_server.engine.world import LineNumbers, World
from treadle_server.engine.writing import write
from treadle_server.errors import StoreUnavailable, TooManyRequests
from treadle_server.store.base import LostUpdate, Store, Tx
from treadle_server.store.heads import lanes_of_job
from treadle_server.store.past_outcomes import add_past_outcomes

log = logging.getLogger(__name__)
R = TypeVar("R")

MOST_ROWS = 1000
"""Tasks that one transaction writes at most, unless a single command has more."""

MOST_WAITING = 20_000
"""Tasks that wait for the writer at most; beyond, submitters are told to come back (429) before memory grows."""

SETTLED = 2.0
"""Seconds after which a commit whose answer was lost is surely done, if it is done at all."""

AFTER_FAILURE = 0.02
"""Seconds that the writer rests after a batch that failed: what comes meanwhile is tried, or refused, together."""

TRIES = 5
"""How often a batch is done anew when another server was faster."""


class Engine:
    """One writer over one store, and who waits for what it does."""

    def __init__(
        self,
        store: Store,
        rules: Rules | None = None,
        *,
        clock: Clock | None = None,
        most_rows: int = MOST_ROWS,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self.store = store
        self.rules = rules or Rules()
        self.clock = clock or store.clock
        self.drift = Drift(self.clock.monotonic)
        """How the clock was set between transactions: each writes leases by what it shows at that time."""
        self.hub = Hub()
        self.desk = Desk(self.clock.monotonic, worker_timeout=self.rules.worker_timeout)
        self.express = Express(self.hub)
        self.hooks = Hooks()
        self._lines = LineNumbers()
        self._memory = Memory(self.desk.doubt_lanes)
        self._intake = Intake(self.rules, self._memory)
        self.trouble: StoreUnavailable | None = None
        """Why the last batch could not be written; None since one was, or since the store was tried."""
        self.commit_seconds, self.batch_rows = Distribution(COMMITS), Distribution(ROWS)
        self.most_rows = most_rows
        """Tasks that one transaction writes at most, unless one command has more."""
        self._most_waiting = most_waiting
        self._queue: deque[Pending] = deque()
        self._queued_rows = 0
        self._wake = asyncio.Event()
        self._closing = False
        self._claims = Claiming(self.desk, self.run, wake=self._wake.set, hand_back=self._hand_back)
        self._doubted: dict[WorkerId, list[Task]] = {}
        """Claims whose commit was not answered: they may be in the database, and nobody has them."""
        self._on_doubt: list[Callable[[], None]] = []

    def tokens_at(self) -> datetime | None:
        """Return the instant at which users need a token for what is theirs to go on; None: they need none."""
        return self.clock.now() if self.rules.needs_tokens else None

    # What others ask

    async def run(self, command: Command[R]) -> R:
        """Have the command applied, and return its answer after the commit.

        Raises what the command refuses with, `TooManyRequests` when too much waits already, and `StoreUnavailable`.
        """
        if self._queued_rows >= self._most_waiting:
            raise TooManyRequests(f"{self._queued_rows} tasks wait to be written; try again soon", retry_after=1)
        if self._closing:
            raise StoreUnavailable("the server is going away; try again", retry_after=1)
        pending = Pending(command, asyncio.get_running_loop().create_future())
        self._queue.append(pending)
        self._queued_rows += command.rows
        self._wake.set()
        return await pending.answer  # type: ignore[no-any-return]

    async def claim(
        self,
        principal: Principal,
        worker_id: WorkerId,
        *,
        most: int = 1,
        wait: float = 0,
        key: ClaimKey | None = None,
    ) -> list[Task]:
        """Claim up to `most` tasks for the worker, waiting up to `wait` seconds for the first.

        What was claimed under a `key` is given again, as far as it is still held. Raises `WorkerNotFound`, `Forbidden`,
        and `TaskConflict` for another request under the key. When the caller is cancelled, what was claimed is handed
        back, unless it has a key to ask for it.
        """
        return await self._claims.claim(principal, worker_id, most=most, wait=wait, key=key)

    def _hand_back(self, worker_id: WorkerId, claimed: list[Task]) -> None:
        """Queue the return of claims that nobody is there for any more."""
        back = HandBack(principal=SYSTEM, worker_id=worker_id, runs=[(t.id, t.run_id) for t in claimed])
        self._queue.append(Pending(back, asyncio.get_running_loop().create_future()))
        self._queued_rows += back.rows
        self._wake.set()

    def open_seat(self, seat: Seat) -> None:
        """Let a worker on the socket take tasks as long as it has room."""
        self.desk.open_seat(seat)
        self._wake.set()

    def close_seat(self, seat: Seat) -> None:
        """Let it go."""
        self.desk.close_seat(seat)

    def seat_changed(self) -> None:
        """Look again at who has room: a seat was changed."""
        self.desk.look_again()
        self._wake.set()

    def wake(self, lanes: set[int]) -> None:
        """Look again at lanes in which something may be claimable, whatever was known of them."""
        self.desk.shelf.drop(lanes)
        self.desk.wake(lanes)
        if self.desk.can_serve or self._doubted:
            self._wake.set()

    def on_doubt(self, listener: Callable[[], None]) -> None:
        """Call `listener` when a commit was not answered: what it changed may be there, and nobody was told of it."""
        self._on_doubt.append(listener)

    def link(self, links: Collection[tuple[WorkerId, int]]) -> None:
        """Let workers that wait here serve jobs that were linked to them, each by its number."""
        if links and self.desk.link(links):
            self._wake.set()

    def let_go(self, keys: Collection[RunKey]) -> None:
        """Free the room of runs that another server has ended: their workers say that they are not theirs any more."""
        if self.desk.release(keys, self.clock.monotonic()):
            self._wake.set()

    # The writer

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Engine"]:
        """Run the writer during the block; at its end, what is queued is still written and answered."""
        await self.hooks.refresh(self.store)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_forever(), name="writer")
            try:
                yield self
            finally:
                self._closing = True
                self._wake.set()

    async def _write_forever(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue or self._doubted or self.desk.can_serve or self.desk.has_impatient:
                if not await self._turn(self._take()):
                    await asyncio.sleep(AFTER_FAILURE)
                    break
            if self._closing and not self._queue:
                return

    def _take(self) -> list[Pending]:
        """Take what waits, up to a bound of rows: a lone command is not kept waiting, and a batch grows under load."""
        taken, rows = self._returns(), 0
        while self._queue and (not taken or rows + self._queue[0].command.rows <= self.most_rows):
            pending = self._queue.popleft()
            self._queued_rows -= pending.command.rows
            rows += pending.command.rows
            if not pending.answer.cancelled():
                taken.append(pending)
        return taken

    def _returns(self) -> list[Pending]:
        """Return what hands back claims of a commit that was not answered, before the same tasks are claimed again."""
        doubted, self._doubted = self._doubted, {}
        found = []
        for worker_id, tasks in doubted.items():
            back = HandBack(principal=SYSTEM, worker_id=worker_id, runs=[(t.id, t.run_id) for t in tasks])
            found.append(Pending(back, asyncio.get_running_loop().create_future()))
            found[-1].answer.add_done_callback(partial(self._doubt_again, worker_id, tasks))
        return found

    def _doubt_again(self, worker_id: WorkerId, tasks: list[Task], done: "asyncio.Future[Any]") -> None:
        if not done.cancelled() and isinstance(done.exception(), StoreUnavailable):
            self._doubt(worker_id, tasks)

    def _doubt(self, worker_id: WorkerId, tasks: list[Task]) -> None:
        self._doubted.setdefault(worker_id, []).extend(tasks)

    async def _turn(self, batch: Sequence[Pending]) -> bool:
        """Apply a batch, commit, answer. Return whether there may be more to do at once."""
        for attempt in range(TRIES):
            for pending in batch:
                pending.is_done = False
            try:
                return await self._commit(batch, express=attempt == 0)
            except (IntegrityError, LostUpdate) as error:
                log.info("another writer was faster (%s), attempt %d", _in_brief(error), attempt + 1)
                if attempt == TRIES - 1:
                    return await self._one_by_one(batch, error)
            except StoreUnavailable as error:
                log.warning("%s", error.detail)
                self.trouble = error
                for pending in batch:
                    pending.refuse(error)
                self.desk.give_up(error)
                return False
            except Exception as error:
                log.exception("a batch of %d commands failed", len(batch))
                return await self._one_by_one(batch, error)
        return True

    async def _one_by_one(self, batch: Sequence[Pending], error: Exception) -> bool:
        """Find the command that makes its batch fail: the others are not to suffer from it (E11)."""
        if len(batch) <= 1:
            for pending in batch:
                pending.refuse(error)
            self.desk.give_up(error)  # the poll wakes it again: a claim that fails must not be tried in a circle
            return False
        for pending in batch:
            await self._turn([pending])
        return True

    async def _commit(self, batch: Sequence[Pending], *, express: bool) -> bool:
        """Apply the batch in one transaction, what is plain by `express` first, and tell what was done."""
        handover = Handover()
        freed: list[Freed] = []
        is_written = False
        began = self.clock.monotonic()
        try:
            async with self.store.write() as tx:
                now = self.clock.now()
                self.drift.look(now)
                express = self._memory.look(tx) and express
                admitted = await self._admit(tx, batch, now) if express else Admitted()
                carried, world = await self._apply(tx, batch, now)
                if self.hooks:
                    await self.hooks.note(tx, [*carried.changes, *world.batch.tasks], now)
                self._note(admitted, carried, world)
                freed = self.desk.release([*carried.released, *world.released], self.clock.monotonic())
                handover = await self._hand_out(tx, world)
                await add_past_outcomes(tx, world.left_ends)
                is_written = True
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                for demand, tasks in handover.given.items():
                    self._doubt(demand.worker_id, list(tasks))
            handover.withdraw()
            # What was to be claimed is still there, though its lanes were noted as empty.
            self.desk.wake({change.task.lane for change in handover.changes})
            self.desk.hold_again(freed)
            self.express.clear()
            self._memory.clear()
            for tell in self._on_doubt if is_written and isinstance(error, StoreUnavailable) else ():
                tell()
                # The database may be about to do what it was asked.
                asyncio.get_running_loop().call_later(SETTLED, tell)
            raise
        self.commit_seconds.add(self.clock.monotonic() - began)
        for pending in batch:
            pending.settle()
        self.hooks.committed()
        self.link(world.batch.links)
        self._remember(world, handover)
        self._publish(admitted, carried, world, handover)
        for seat in self.desk.deliver(handover, self.clock.monotonic()):
            self._hand_back(seat.worker_id, handover.given[seat])
        return True

    def _note(self, admitted: Admitted, carried: Carried, world: World) -> None:
        """Tell the desk where there is something new to claim, before the commit."""
        self.desk.shelf.add(change.task for change in admitted.changes)
        self.desk.shelf.drop(admitted.freed | carried.woken | world.reordered)
        self.desk.wake(admitted.woken | carried.woken | world.woken)

    def _remember(self, world: World, handover: Handover) -> None:
        """Keep what is known current with what was committed."""
        self.express.follow(world.tasks[task_id] for task_id in world.opened)
        if world.changes.restamped:
            self.express.clear()
        self.express.know(change.task for change in handover.changes)
        self.express.heed(world.workers.values(), world.changes.gone_workers)
        self._memory.count(world.counted)
        self._memory.count(handover.counted)
        self._memory.heed(world.batch.jobs, world.lanes.values(), new_tasks=bool(world.changes.new_tasks))

    def _publish(self, admitted: Admitted, carried: Carried, world: World, handover: Handover) -> None:
        """Tell what the commit changed, in the order in which it was done."""
        told: Batch = world.batch
        told.is_sole = world.tx.is_sole
        told.lanes = self.desk.still_ready(admitted.woken | carried.woken | world.woken | handover.left)
        told.tasks = [*admitted.changes, *carried.changes, *told.tasks, *handover.changes]
        told.runs = carried.runs + told.runs
        told.targets |= admitted.targets | carried.targets | handover.targets
        self.batch_rows.add(len(told.tasks))
        if told:
            self.trouble = None  # something was written
            self.hub.publish(told)

    async def _admit(self, tx: Tx, batch: Sequence[Pending], now: datetime) -> Admitted:
        commands = [p.command if isinstance(p.command, (Submit, SubmitEach)) else None for p in batch]
        admitted = await self._intake.admit(tx, commands, now)
        for i, answers in admitted.answers.items():
            batch[i].is_done, batch[i].outcome, batch[i].refusal = True, answers, None
        return admitted

    async def _apply(self, tx: Tx, batch: Sequence[Pending], now: datetime) -> tuple[Carried, World]:
        """Apply the commands: plain reports by express first, then everything else in its order."""
        left = [pending for pending in batch if not pending.is_done]
        reports = [pending.command for pending in left if isinstance(pending.command, ReportMany)]
        needs = Needs()
        others = [pending for pending in left if not isinstance(pending.command, ReportMany)]
        wanted = {pending for pending in others if pending.says_needs(needs)}
        carried = await self.express.carry(tx, reports, needs.tasks, now)
        for pending in left:
            if isinstance(pending.command, ReportMany):
                pending.outcome, pending.refusal = {}, None
                if pending.command.rest and pending.says_needs(needs):
                    wanted.add(pending)
        world = World(tx, now, self.rules, random.random, self._lines)
        if wanted:
            await self._work(world, needs, [pending for pending in left if pending in wanted])
        return carried, world

    async def _work(self, world: World, needs: Needs, wanted: Sequence[Pending]) -> None:
        await read(world, needs)
        for pending in wanted:
            try:
                pending.outcome = pending.command.apply(world)
            except Exception as error:  # noqa: BLE001 - told to the one who asked
                pending.refusal = error
        if world.schedules:
            go_on(world)
        await write(world)
        for job_num in world.wake_jobs:
            world.woken |= await lanes_of_job(world.tx, job_num)

    async def _hand_out(self, tx: Tx, world: World) -> Handover:
        if world.batch.jobs:
            self.desk.doubt_lanes()
        self.desk.heed(world.batch.workers, world.changes.gone_workers)
        if not (self.desk.can_serve or self.desk.has_impatient):
            return Handover()
        return await self.desk.hand_out(tx, world.now)


def _in_brief(error: Exception) -> str:
    """Return what the database said, without the statement and what was to be written: that is nobody's to read."""
    return str(getattr(error, "orig", None) or error).partition("\n")[0]
