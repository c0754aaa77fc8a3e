"""The engine: queues commands, applies many of them in one commit, answers their callers and publishes the changes.

See G1 and G7.
"""

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
from treadle_server.engine.dispatch.dispatcher import Dispatcher
from treadle_server.engine.dispatch.http_claims import HttpClaims
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.due_ahead import DueAhead
from treadle_server.engine.fast_path.reports import FastReports
from treadle_server.engine.fast_path.submits import FastSubmits
from treadle_server.engine.hooks import Hooks
from treadle_server.engine.hub import Hub
from treadle_server.engine.in_flight import Attempt, BeforeFailed, InFlight
from treadle_server.engine.limits import ClockReading, LimitKeeper
from treadle_server.engine.outrun import outrun
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
"""Seconds that the writer pauses after a failed batch; commands that arrive meanwhile are tried or refused together."""

TRIES = 5
"""How often a batch is tried when other servers keep winning the race for the same rows."""


class Engine:
    """One writer over one store, and the callers that wait for its answers."""

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
        """Notices that the clock was set between transactions; each transaction writes leases by the clock as it is."""
        self.hub = Hub()
        self.dispatcher = Dispatcher(self.clock.monotonic, worker_timeout=self.rules.worker_timeout)
        self.fast_reports = FastReports(self.hub)
        self.hooks = Hooks()
        self.show_presence: Callable[[Tx, datetime], Awaitable[None]] | None = None
        """Records in a transaction that this server is present, in case other servers don't know it yet."""
        self._limits = LimitKeeper(self.clock.monotonic)
        self._log_lines = LogLineNumbers()
        self.due_ahead = DueAhead()
        self._cache = Cache(self.dispatcher.forget_lanes, self.due_ahead.clear)
        self.fast_submits = FastSubmits(self.rules, self._cache)
        self.trouble: StoreUnavailable | None = None
        """Why a batch could not be written. The probe sets it to None once it has written as much as a large batch."""
        self.commit_seconds, self.batch_rows = Distribution(COMMITS), Distribution(ROWS)
        self._queue = CommandQueue(most_rows, most_waiting)
        self._wake, self._moved = asyncio.Event(), asyncio.Event()
        """Set when a command arrived or a batch ended, so that another batch may be applied."""
        self.claims = HttpClaims(self.dispatcher, self.run, wake=self._wake.set, hand_back=self._hand_back)
        self.unconfirmed = Unconfirmed()
        self._refusal = NOT_STARTED  # why commands are refused; empty while the writer runs

    @property
    def most_rows(self) -> int:
        """Return how many tasks one transaction writes at most, unless a single command has more."""
        return self._queue.most_rows

    def tokens_at(self) -> datetime | None:
        """Return the instant at which the owners of tasks must have a valid token, or None if they need none."""
        return self.clock.now() if self.rules.needs_tokens else None

    # Called by the rest of the server

    async def run(self, command: Command[R]) -> R:
        """Apply the command in the next batch, and return its answer after the commit.

        Raises whatever the command raises, `TooManyRequests` if too many tasks wait to be written, and
        `StoreUnavailable`.
        """
        pending = Pending(command)
        if self._queue.is_full(pending):
            raise TooManyRequests(f"{self._queue.rows} tasks are waiting to be written; try again soon", retry_after=1)
        if self._refusal:
            raise StoreUnavailable(self._refusal, retry_after=1)
        return await self._add(pending)  # type: ignore[no-any-return]

    def _add(self, pending: Pending) -> "asyncio.Future[Any]":
        """Queue a command for the writer; return the future of its answer."""
        self._queue.add(pending)
        self._wake.set()
        self._moved.set()
        return pending.answer

    def _hand_back(self, worker_id: WorkerId, claimed: list[Task]) -> None:
        """Queue the return of claims whose worker is no longer there to receive them."""
        self._add(Pending(give_back(worker_id, claimed)))

    def open_slot(self, slot: WorkerSlot) -> None:
        """Let a worker on the socket receive tasks as long as it has room."""
        self.dispatcher.open_slot(slot)
        self._wake.set()

    def close_slot(self, slot: WorkerSlot) -> None:
        """Give no more tasks to a worker that has left the socket; it keeps what it holds."""
        self.dispatcher.close_slot(slot)

    def slot_changed(self) -> None:
        """Check again which workers have room, after a slot was changed."""
        self.dispatcher.look_again()
        self._wake.set()

    def wake(self, lanes: set[int]) -> None:
        """Check lanes again in which tasks may have become claimable without this server's knowledge."""
        self.dispatcher.head_cache.look_again(lanes)
        self.dispatcher.wake(lanes)
        if self.dispatcher.can_serve or self.unconfirmed:
            self._wake.set()

    def link(self, links: Collection[tuple[WorkerId, int]]) -> None:
        """Let workers that wait here serve the jobs that were linked to them; jobs are given by number."""
        if links and self.dispatcher.link(links):
            self._wake.set()

    def let_go(self, keys: Collection[RunKey]) -> None:
        """Free the room of runs that another server has ended; their workers have said that they don't hold them."""
        if self.dispatcher.release(keys, self.clock.monotonic()):
            self._wake.set()

    # The writer

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Engine"]:
        """Run the writer during the block; when it ends, commands that are queued are still written and answered."""
        await self.hooks.refresh(self.store)
        self._refusal = ""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_forever(), name="writer")
            try:
                yield self
            finally:
                self._refusal = "the server is shutting down; try again"
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
        """Write a batch, and then others for as long as each can be applied while its predecessor is written.

        Return whether there may be more to do at once.
        """
        await self._queue.gather()
        if not self.store.is_shared:
            return await self._turn(InFlight(self._take()))  # SQLite commits within this call, or soon after it
        last = await self._start(group, InFlight(self._take()))
        while not last.ended.is_set():
            if last.may_be_followed and self._queue.may_follow:
                flight = await self._start(group, InFlight(self._queue.take(following=True), last))
                await last.ended.wait()
                if not last.may_go_on:
                    return False
                last = flight
            else:
                await self._moved.wait()
                self._moved.clear()
        return last.may_go_on

    async def _start(self, group: asyncio.TaskGroup, flight: InFlight) -> InFlight:
        group.create_task(self._process(flight), name="batch")
        await flight.applied.wait()
        return flight

    async def _process(self, flight: InFlight) -> None:
        try:
            flight.may_go_on = await self._turn(flight)
        finally:
            flight.end()
            self._moved.set()

    def _take(self) -> list[Pending]:
        return [*self.unconfirmed.take(), *self._queue.take()]

    async def _turn(self, flight: InFlight) -> bool:
        """Apply a batch, commit it and answer its callers. Return whether there may be more to do at once."""
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
                # With several servers even an idle one is overtaken now and then; only a second time is worth logging.
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
        """Run the commands of a failed batch singly, so that only the one at fault fails (E11)."""
        if len(batch) <= 1:
            if isinstance(error, IntegrityError | LostUpdate):
                error = await outrun(self.store, error)
            for pending in batch:
                pending.refuse(error)
            self.dispatcher.give_up(error)  # until the poll wakes it: a failing claim must not be retried in a loop
            return False
        for pending in batch:
            await self._turn(InFlight([pending]))
        return True

    async def _commit(self, flight: InFlight, *, fast: bool) -> bool:
        """Write the batch in one transaction, by the fast path where possible if `fast`; then answer and publish."""
        attempt, began = Attempt(), self.clock.monotonic()
        try:
            async with self.store.write(after=flight.wait_for_previous if fast else None) as tx:
                work, reading = await self._fill(tx, flight, attempt, fast=fast)
        except BaseException as error:
            self._undo(attempt, error)
            await flight.fail()
            raise
        await flight.committed()
        self._limits.keep(reading)
        self.commit_seconds.add(self.clock.monotonic() - began)
        self._announce(flight.batch, work, attempt.assignments)
        return True

    async def _fill(self, tx: Tx, flight: InFlight, attempt: Attempt, *, fast: bool) -> tuple[UnitOfWork, ClockReading]:
        """Write everything that the batch's transaction is to commit: what its commands do, and claims."""
        now = self.clock.now()
        self.drift.look(now)
        reading = await self._limits.begin(tx, now, goes_first=flight.was_overtaken)
        fast = self._cache.look(tx) and fast
        work = UnitOfWork(tx, now, self.rules, random.random, self._log_lines, self.due_ahead)
        new = await self.fast_submits.submit(work, flight.batch) if fast else []
        if left := [pending for pending in flight.batch if not pending.is_done]:
            await self._apply(work, left)
        new = new if work.is_plain else [*new, *work.changes.queued]
        if work.limited or reading.was_set or not work.is_plain:
            await self._limits.let_through(work, reading)
        if self.hooks:
            await self.hooks.note(tx, work.batch.tasks, now)
        if self.show_presence is not None:
            await self.show_presence(tx, now)
        if new:  # the batch before may still be reading the ends of queues
            await flight.wait_for_previous()
        self._note_claimable(work, new)
        attempt.freed = self.dispatcher.release(work.released, self.clock.monotonic())
        attempt.assignments = assignments = await self._assign(work) or attempt.assignments
        if work.left_ends:
            await add_past_outcomes(tx, work.left_ends)
        attempt.is_written = True
        self._cache.add(work.lanes.values())
        self._cache.count(work.counted)
        self._cache.count(assignments.counted)
        flight.note_applied(may_be_followed=not (tx.has_begun() or self.dispatcher.has_claims))
        if flight.may_be_followed and not new and self.dispatcher.head_cache.runs_short:
            await flight.wait_for_previous()
            flight.read_beside(self.dispatcher.head_cache.read_ahead(tx.beside(), now))
        return work, reading

    def _undo(self, attempt: Attempt, error: BaseException) -> None:
        """Take back what a transaction that failed had done in memory, and forget what it may have changed."""
        assignments = attempt.assignments
        if isinstance(error, StoreUnavailable):
            for demand, tasks in assignments.given.items():
                self.unconfirmed.note(demand.worker_id, list(tasks))
        assignments.withdraw()
        # The tasks are still there to be claimed, though their lanes were noted as empty.
        self.dispatcher.wake({change.task.lane for change in assignments.changes})
        self.dispatcher.hold_again(attempt.freed)
        self.fast_reports.clear()
        self._cache.clear()
        self._limits.note_failure(error)
        if attempt.is_written and isinstance(error, StoreUnavailable):
            self.unconfirmed.notify()

    def _announce(self, batch: Sequence[Pending], work: UnitOfWork, assignments: Assignments) -> None:
        """Answer the callers, publish what the commit changed, and deliver its claims."""
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

    def _note_claimable(self, work: UnitOfWork, new: Iterable[Task]) -> None:
        """Tell the dispatcher, before the commit, where tasks are claimable; `new` ones are last in their queues."""
        self.dispatcher.head_cache.add(new)
        self.dispatcher.head_cache.drop(work.woken if work.is_plain else work.reordered)
        work.batch.lanes |= work.woken
        self.dispatcher.wake(work.batch.lanes)

    def _remember(self, work: UnitOfWork) -> None:
        """Update the caches with changes that were neither plain submits nor plain reports."""
        self.fast_reports.follow(work.opened)
        self.fast_reports.forget(work.dependencies.watched.values())
        if work.changes.restamped:
            self.fast_reports.clear()
        self.fast_reports.note_workers(work.workers.values(), work.changes.gone_workers)
        self._cache.invalidate(work.batch.jobs, new_tasks=bool(work.changes.new_tasks))

    def _publish(self, work: UnitOfWork, assignments: Assignments) -> None:
        """Publish what the commit changed."""
        batch = work.batch
        assignments.note_in(batch)
        batch.lanes = self.dispatcher.still_ready(batch.lanes)
        self.batch_rows.add(len(batch.tasks))
        if batch:
            self.hub.publish(batch)

    async def _apply(self, work: UnitOfWork, left: Sequence[Pending]) -> None:
        """Apply the commands: first plain reports, by the fast path, then everything else in order."""
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
        """Assign claimable tasks to workers; return None if there is nothing to assign or no worker to take it."""
        if not work.is_plain:
            if work.batch.jobs:
                self.dispatcher.forget_lanes()
            self.dispatcher.note_workers(work.batch.workers, work.changes.gone_workers)
            self.dispatcher.note_online(work.workers.values())
        if not (self.dispatcher.can_serve or self.dispatcher.has_impatient):
            return None
        return await self.dispatcher.assign(work.tx, work.now)
