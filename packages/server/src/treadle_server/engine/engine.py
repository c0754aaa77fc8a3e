"""The engine: takes commands, lets the writer apply many of them in one commit, answers, and publishes (G1, G7)."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.exc import IntegrityError

from treadle.wire.amounts import counted
from treadle.wire.ids import WorkerId
from treadle_server.clock import Clock, Drift
from treadle_server.distribution import COMMITS, ROWS, Distribution
from treadle_server.domain.tasks import RunKey, Task
from treadle_server.engine.applying import apply
from treadle_server.engine.cache import Cache
from treadle_server.engine.command_queue import MOST_ROWS, MOST_WAITING, CommandQueue
from treadle_server.engine.commands.base import Command
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.dispatch.assignments import Assignments
from treadle_server.engine.dispatch.dispatcher import Dispatcher, Freed
from treadle_server.engine.dispatch.http_claims import HttpClaims
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.due_ahead import DueAhead
from treadle_server.engine.fast_path.reports import FastReports
from treadle_server.engine.fast_path.submits import FastSubmits
from treadle_server.engine.hooks import Hooks
from treadle_server.engine.hub import Hub
from treadle_server.engine.in_flight import BeforeFailed, InFlight
from treadle_server.engine.limits import LimitKeeper
from treadle_server.engine.pending import Pending
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.rules import Rules
from treadle_server.engine.unconfirmed import Unconfirmed, give_back
from treadle_server.engine.unit_of_work import LogLineNumbers, UnitOfWork
from treadle_server.errors import NOT_STARTED, StoreUnavailable, TooManyRequests
from treadle_server.store.base import LostUpdate, Overtaken, Tx
from treadle_server.store.failures import in_brief
from treadle_server.store.store import SqlStore
from treadle_server.store.transaction.counts import add_past_outcomes

log = logging.getLogger(__name__)
R = TypeVar("R")

AFTER_FAILURE = 0.02
"""Seconds that the writer rests after a batch that failed: what comes meanwhile is tried, or refused, together."""

TRIES = 5
"""How often a batch is done anew when another server was faster."""


class Engine:
    """One writer over one store, and who waits for what it does."""

    def __init__(
        self,
        store: SqlStore,
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
        self.dispatcher = Dispatcher(self.clock.monotonic, worker_timeout=self.rules.worker_timeout)
        self.fast_reports = FastReports(self.hub)
        self.hooks = Hooks()
        self.show_presence: Callable[[Tx, datetime], Awaitable[None]] | None = None
        """Writes into a transaction that this server is there, where other servers may not know it."""
        self._limits = LimitKeeper(self.clock.monotonic)
        self._log_lines = LogLineNumbers()
        self.due_ahead = DueAhead()
        self._cache = Cache(self.dispatcher.forget_lanes, self.due_ahead.clear)
        self.fast_submits = FastSubmits(self.rules, self._cache)
        self.trouble: StoreUnavailable | None = None
        """Why a batch could not be written; None since the probe has written as much as a large one."""
        self.commit_seconds, self.batch_rows = Distribution(COMMITS), Distribution(ROWS)
        self._queue = CommandQueue(most_rows, most_waiting)
        self._wake, self._moved = asyncio.Event(), asyncio.Event()
        """Set when a command came or a batch is over: another batch may be applied now."""
        self.claims = HttpClaims(self.dispatcher, self.run, wake=self._wake.set, hand_back=self._hand_back)
        self.unconfirmed = Unconfirmed()
        self._refusal = NOT_STARTED  # why nothing is taken; empty while the writer runs

    @property
    def most_rows(self) -> int:
        """Tasks that one transaction writes at most, unless one command has more."""
        return self._queue.most_rows

    def tokens_at(self) -> datetime | None:
        """Return the instant at which users need a token for what is theirs to go on; None: they need none."""
        return self.clock.now() if self.rules.needs_tokens else None

    # What others ask

    async def run(self, command: Command[R]) -> R:
        """Have the command applied, and return its answer after the commit.

        Raises what the command refuses with, `TooManyRequests` when too much waits already, and `StoreUnavailable`.
        """
        pending = Pending(command)
        if self._queue.is_full(pending):
            raise TooManyRequests(f"{self._queue.rows} tasks are waiting to be written; try again soon", retry_after=1)
        if self._refusal:
            raise StoreUnavailable(self._refusal, retry_after=1)
        return await self._add(pending)  # type: ignore[no-any-return]

    def _add(self, pending: Pending) -> "asyncio.Future[Any]":
        """Let a command wait for the writer; return what its answer will be."""
        self._queue.add(pending)
        self._wake.set()
        self._moved.set()
        return pending.answer

    def _hand_back(self, worker_id: WorkerId, claimed: list[Task]) -> None:
        """Queue the return of claims that nobody is there for any more."""
        self._add(Pending(give_back(worker_id, claimed)))

    def open_slot(self, slot: WorkerSlot) -> None:
        """Let a worker on the socket take tasks as long as it has room."""
        self.dispatcher.open_slot(slot)
        self._wake.set()

    def close_slot(self, slot: WorkerSlot) -> None:
        """Give a worker that has left the socket no more tasks; what it holds stays its own."""
        self.dispatcher.close_slot(slot)

    def slot_changed(self) -> None:
        """Look again at who has room: a slot was changed."""
        self.dispatcher.look_again()
        self._wake.set()

    def wake(self, lanes: set[int]) -> None:
        """Look again at lanes in which something may be claimable that nobody here was told of."""
        self.dispatcher.head_cache.look_again(lanes)
        self.dispatcher.wake(lanes)
        if self.dispatcher.can_serve or self.unconfirmed:
            self._wake.set()

    def link(self, links: Collection[tuple[WorkerId, int]]) -> None:
        """Let workers that wait here serve jobs that were linked to them, each by its number."""
        if links and self.dispatcher.link(links):
            self._wake.set()

    def let_go(self, keys: Collection[RunKey]) -> None:
        """Free the room of runs that another server has ended: their workers say that they are not theirs any more."""
        if self.dispatcher.release(keys, self.clock.monotonic()):
            self._wake.set()

    # The writer

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Engine"]:
        """Run the writer during the block; at its end, what is queued is still written and answered."""
        await self.hooks.refresh(self.store)
        self._refusal = ""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_forever(), name="writer")
            try:
                yield self
            finally:
                self._refusal = "the server is going away; try again"
                self._wake.set()

    async def _write_forever(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not (self._refusal and not self._queue):
                await self._wake.wait()
                self._wake.clear()
                while self._queue or self.unconfirmed or self.dispatcher.can_serve or self.dispatcher.has_impatient:
                    if not await self._write(group):
                        await asyncio.sleep(AFTER_FAILURE)
                        break

    async def _write(self, group: asyncio.TaskGroup) -> bool:
        """Write a batch, and others behind it as long as they can be applied while the one before is written.

        Return whether there may be more to do at once.
        """
        await self._queue.gather()
        if not self.store.is_shared:
            return await self._turn(InFlight(self._take()))  # SQLite's commits are done in place, or soon
        last = await self._launch(group, InFlight(self._take()))
        while not last.ended.is_set():
            if last.may_be_followed and self._queue.may_follow:
                flight = await self._launch(group, InFlight(self._queue.take(following=True), last))
                await last.ended.wait()
                if not last.is_well:
                    return False
                last = flight
            else:
                await self._moved.wait()
                self._moved.clear()
        return last.is_well

    async def _launch(self, group: asyncio.TaskGroup, flight: InFlight) -> InFlight:
        group.create_task(self._fly(flight), name="batch")
        await flight.applied.wait()
        return flight

    async def _fly(self, flight: InFlight) -> None:
        try:
            flight.is_well = await self._turn(flight)
        finally:
            flight.end()
            self._moved.set()

    def _take(self) -> list[Pending]:
        return [*self.unconfirmed.take(), *self._queue.take()]

    async def _turn(self, flight: InFlight) -> bool:
        """Apply a batch, commit, answer. Return whether there may be more to do at once."""
        batch = flight.batch
        for attempt in range(TRIES):
            for pending in batch:
                pending.is_done = False
            try:
                return await self._commit(flight, fast=attempt == 0)
            except BeforeFailed:
                self._queue.put_back(batch)
                return True
            except (IntegrityError, LostUpdate) as error:
                # Of several servers now and then one is overtaken, an idle one too; twice in a row is worth a word.
                level = logging.INFO if attempt else logging.DEBUG
                log.log(level, "another writer was faster (%s), attempt %d", in_brief(error), attempt + 1)
                flight.was_overtaken |= isinstance(error, Overtaken)
                faster = error
            except StoreUnavailable as error:
                log.warning("%s", error.detail)
                self.trouble = error
                for pending in batch:
                    pending.refuse(error)
                self.dispatcher.give_up(error)
                return False
            except Exception as error:
                log.exception("a batch of %s failed", counted(len(batch), "command"))
                return await self._one_by_one(batch, error)
        return await self._one_by_one(batch, faster)

    async def _one_by_one(self, batch: Sequence[Pending], error: Exception) -> bool:
        """Find the command that makes its batch fail: the others are not to suffer from it (E11)."""
        if len(batch) <= 1:
            for pending in batch:
                pending.refuse(error)
            self.dispatcher.give_up(error)  # the poll wakes it again: a claim that fails must not be tried in a circle
            return False
        for pending in batch:
            await self._turn(InFlight([pending]))
        return True

    async def _commit(self, flight: InFlight, *, fast: bool) -> bool:
        """Apply the batch in one transaction, if `fast` by the fast path what can be, and tell what was done."""
        batch = flight.batch
        assignments, is_written = Assignments(), False
        freed: list[Freed] = []
        began = self.clock.monotonic()
        try:
            async with self.store.write(after=flight.land if fast else None) as tx:
                now = self.clock.now()
                self.drift.look(now)
                sight = await self._limits.begin(tx, now, goes_first=flight.was_overtaken)
                fast = self._cache.look(tx) and fast
                work = UnitOfWork(tx, now, self.rules, random.random, self._log_lines, self.due_ahead)
                new = await self.fast_submits.submit(work, batch) if fast else []
                if left := [pending for pending in batch if not pending.is_done]:
                    await self._apply(work, left)
                new = new if work.is_plain else [*new, *work.changes.queued]
                if work.limited or sight.was_set or not work.is_plain:
                    await self._limits.let_through(work, sight)
                if self.hooks:
                    await self.hooks.note(tx, work.batch.tasks, now)
                if self.show_presence is not None:
                    await self.show_presence(tx, now)
                if new:  # the batch before may read on behind queues
                    await flight.land()
                self._note_claimable(work, new)
                freed = self.dispatcher.release(work.released, self.clock.monotonic())
                assignments = await self._assign(work) or assignments
                if work.left_ends:
                    await add_past_outcomes(tx, work.left_ends)
                is_written = True
                self._cache.count(work.counted)
                self._cache.count(assignments.counted)
                flight.note_applied(may_be_followed=not (tx.has_begun() or self.dispatcher.has_claims))
                if flight.may_be_followed and not new and self.dispatcher.head_cache.runs_short:
                    await flight.land()
                    flight.read_beside(self.dispatcher.head_cache.read_ahead(tx.beside(), now))
        except BaseException as error:
            if isinstance(error, StoreUnavailable):
                for demand, tasks in assignments.given.items():
                    self.unconfirmed.note(demand.worker_id, list(tasks))
            assignments.withdraw()
            # What was to be claimed is still there, though its lanes were noted as empty.
            self.dispatcher.wake({change.task.lane for change in assignments.changes})
            self.dispatcher.hold_again(freed)
            self.fast_reports.clear()
            self._cache.clear()
            self._limits.note_failure(error)
            if is_written and isinstance(error, StoreUnavailable):
                self.unconfirmed.tell()
            await flight.fail()
            raise
        await flight.committed()
        self._limits.keep(sight)
        self.commit_seconds.add(self.clock.monotonic() - began)
        for pending in batch:
            pending.send_answer()
        self.hooks.committed()
        self.link(work.batch.links)
        if not work.is_plain:
            self._remember(work)
        self.fast_reports.know(change.task for change in assignments.changes)
        self._publish(work, assignments)
        for slot in self.dispatcher.deliver(assignments, self.clock.monotonic()):
            self._hand_back(slot.worker_id, assignments.given[slot])
        return True

    def _note_claimable(self, work: UnitOfWork, new: Iterable[Task]) -> None:
        """Tell the dispatcher where there is something to claim, before the commit; `new` tasks stand behind others."""
        self.dispatcher.head_cache.add(new)
        self.dispatcher.head_cache.drop(work.woken if work.is_plain else work.reordered)
        work.batch.lanes |= work.woken
        self.dispatcher.wake(work.batch.lanes)

    def _remember(self, work: UnitOfWork) -> None:
        """Keep what is known current with what was changed that is neither a plain submit nor a plain report."""
        self.fast_reports.follow(work.opened)
        self.fast_reports.forget(work.dependencies.watched.values())
        if work.changes.restamped:
            self.fast_reports.clear()
        self.fast_reports.note_workers(work.workers.values(), work.changes.gone_workers)
        self._cache.invalidate(work.batch.jobs, work.lanes.values(), new_tasks=bool(work.changes.new_tasks))

    def _publish(self, work: UnitOfWork, assignments: Assignments) -> None:
        """Tell what the commit changed."""
        told = work.batch
        assignments.note_in(told)
        told.lanes = self.dispatcher.still_ready(told.lanes)
        self.batch_rows.add(len(told.tasks))
        if told:
            self.hub.publish(told)

    async def _apply(self, work: UnitOfWork, left: Sequence[Pending]) -> None:
        """Apply the commands: plain reports by the fast path first, then everything else in its order."""
        reports = [pending.command for pending in left if isinstance(pending.command, ReportMany)]
        reads = ReadSet()
        wanted = {p for p in left if not isinstance(p.command, ReportMany) and p.declare_reads(reads)}
        taken = self.fast_reports.take(work, reports, reads.tasks)
        for pending in left:
            if isinstance(pending.command, ReportMany):
                pending.outcome, pending.refusal = {}, None
                if pending.command.rest and pending.declare_reads(reads):
                    wanted.add(pending)
        commands = [pending for pending in left if pending in wanted]
        await (apply(work, reads, taken, commands) if commands else taken.write_alone())

    async def _assign(self, work: UnitOfWork) -> Assignments | None:
        """Hand out what may be claimed by now; None when there is nothing, or nobody who takes it."""
        if not work.is_plain:
            if work.batch.jobs:
                self.dispatcher.forget_lanes()
            self.dispatcher.note_workers(work.batch.workers, work.changes.gone_workers)
        if not (self.dispatcher.can_serve or self.dispatcher.has_impatient):
            return None
        return await self.dispatcher.assign(work.tx, work.now)
