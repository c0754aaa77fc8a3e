"""The server's sessions and what feeds them: the entry point for everything that is pushed."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from treadle.wire.frames import Push
from treadle.wire.ids import WorkerId
from treadle.wire.log_lines import bound
from treadle.wire.status import Reason, WorkerState
from treadle_server.access.principal import SYSTEM
from treadle_server.engine.commands import ReturnUnstarted
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.hub import Batch, Instructions
from treadle_server.errors import TreadleError, Unauthorized
from treadle_server.live.connection import GOING_AWAY, UNAUTHORIZED, Connection
from treadle_server.live.events import Events
from treadle_server.live.feeds import Feeds
from treadle_server.live.outbox import Backlog
from treadle_server.live.pace import Pace
from treadle_server.live.results import Results
from treadle_server.live.task_windows import FilterTotals
from treadle_server.live.tokens import SessionTokens
from treadle_server.operations.context import OperationContext
from treadle_server.services.base import Service

log = logging.getLogger(__name__)

QUEUES = 8
"""The total size of all outboxes together, in full outboxes of one socket."""

IDLE_BEATS_SECONDS = 0.5
"""Seconds over which idle workers' heartbeats are gathered: 1,000 workers' then take 2 commits a second, not 67."""

_TAKEN_AWAY = {Reason.CLAIM_EXPIRED, Reason.START_TIMEOUT, Reason.WORKER_SHUTDOWN}
"""Reasons after which a run's code is presumed dead; after any other, its worker must confirm that it stopped."""

_OF_RUNS: tuple[Push, ...] = ("cancel", "pause", "gone")
"""The instructions to a worker about its runs, by their names in `Instructions`."""


class Live:
    """The sessions of this server."""

    def __init__(self, ctx: OperationContext) -> None:
        self.ctx = ctx
        self.events = Events(ctx.engine.hub, ctx.engine.clock, ctx.recent)
        self.feeds = Feeds(ctx.engine, ctx.rates)
        self.totals = FilterTotals(ctx.engine.hub)
        self.results = Results(ctx.engine.store)
        self.backlog = Backlog(QUEUES * ctx.settings.session_queue_bytes)
        ctx.engine.unconfirmed.listen(self.feeds.lose)
        ctx.absences.on_heard = lambda: self.feeds.touch("workers")
        self.idle_beats = Pace(IDLE_BEATS_SECONDS)
        self._sessions: set[Connection] = set()
        self._workers: dict[WorkerId, Connection] = {}
        self._away: dict[WorkerId, asyncio.Task[None]] = {}
        self._group: asyncio.TaskGroup | None = None
        self.is_closing = False
        """Whether the server is shutting down: no new session is accepted."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Feed the sessions during the block."""
        # The rates' listener was added earlier, so a feed that a batch marks reads rates that include it.
        listeners = (self.events.on_commit, self.results.on_commit, self.feeds.on_commit, self._tell_workers)
        forgets = [self.ctx.engine.hub.listen(listener) for listener in listeners]
        tokens = SessionTokens(self.ctx.access, self._sessions)
        services: tuple[Service, ...] = (self.feeds, self.feeds.corrections, self.results, tokens)
        async with asyncio.TaskGroup() as self._group:
            loops = [self._group.create_task(self.ctx.supervised(one), name=one.name) for one in services]
            try:
                yield
            finally:
                self.is_closing = True
                for forget in forgets:
                    forget()
                for task in (*loops, *self._away.values()):
                    task.cancel()

    @contextmanager
    def pushing_to(self, session: Connection) -> Iterator[None]:
        """Push to the session during the block, and end it when its token expires."""
        self._sessions.add(session)
        session.outbox.eased.add(self.results.ease)
        ender = None
        if session.principal.expires_at is not None and self._group is not None:
            ender = self._group.create_task(self._end_with_token(session), name="expiry")
        try:
            yield
        finally:
            if ender is not None:
                ender.cancel()
            session.closed.set()
            # It may have been cut off midway: its waiting messages no longer count towards the total.
            session.outbox.close()
            self._sessions.discard(session)
            for sub in list(session.feeds):
                self.unsubscribe(session, sub)
            if session.listener is not None:
                self.events.remove(session.listener)
            self.results.drop(session, session.awaited)
            self.close_slot(session)
            if session.worker_id is not None:
                self._wait_for_return(session.worker_id)

    def unsubscribe(self, session: Connection, sub: str) -> None:
        """End the subscription of this name; nothing happens when there is none."""
        if (feed := session.feeds.pop(sub, None)) is not None:
            self.feeds.unsubscribe(feed, session.number, sub)

    def soon(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something in the background; nothing happens while the sessions end."""
        if self._group is None or self.is_closing:
            work.close()
        else:
            self._group.create_task(work, name=name)

    def kinds(self) -> Counter[str]:
        """Return the number of sessions by kind: with a worker, watching something, and others."""
        return Counter(
            "worker" if one.worker_id is not None else "observer" if one.feeds or one.listener else "client"
            for one in self._sessions
        )

    async def _end_with_token(self, session: Connection) -> None:
        """End the session at the moment when its token expires."""
        try:
            await self.ctx.access.until_invalid(session.token)
        except Unauthorized as error:
            await session.close(UNAUTHORIZED, error.detail)

    async def close(self) -> None:
        """Close every session, with the reason that the server is going away."""
        self.is_closing = True
        await asyncio.gather(
            *(session.close(GOING_AWAY, "the server is shutting down") for session in list(self._sessions))
        )

    # Workers

    async def displace(self, worker_id: WorkerId, by: Connection) -> None:
        """End the worker's previous session: it has reconnected on another one."""
        self._is_back(worker_id)
        other = self._workers.get(worker_id)
        if other is not None:
            self.close_slot(other)
            if other is not by:
                other.worker_id = None
                await other.close(GOING_AWAY, "the worker opened another session")

    def _is_back(self, worker_id: WorkerId) -> None:
        if (away := self._away.pop(worker_id, None)) is not None:
            away.cancel()
        if self.ctx.absences.end(worker_id):
            self.feeds.touch("workers")

    def open_slot(self, session: Connection, slot: WorkerSlot) -> None:
        """Let the worker take tasks, unless its session ended meanwhile."""
        if session.closed.is_set():
            self._wait_for_return(slot.worker_id)
            return
        # An older session of the worker, which was still opening when this one came, may have ended meanwhile.
        self._is_back(slot.worker_id)
        session.slot = slot
        self._workers[slot.worker_id] = session
        self.ctx.engine.open_slot(slot)
        if slot.draining:
            self._ask_to_drain(session)

    def close_slot(self, session: Connection) -> None:
        """Stop giving tasks to the session's worker."""
        if session.slot is not None:
            self.ctx.engine.close_slot(session.slot)
            if self._workers.get(session.slot.worker_id) is session:
                del self._workers[session.slot.worker_id]
            session.slot = None

    def _drop_lost(self, session: Connection) -> None:
        """End the session of a worker whose heartbeats stopped, or that has gone to another server.

        Tasks that it is given here would be lost again. If it is alive after all, it reconnects and opens itself with
        its jobs.
        """
        self.close_slot(session)
        session.worker_id = None
        self.soon(session.close(GOING_AWAY, "no heartbeat from the worker, or it is at another server"), name="lost")

    def _wait_for_return(self, worker_id: WorkerId) -> None:
        """Return the worker's unstarted runs to their queues, unless it reconnects in time."""
        if self._group is None or self.is_closing or worker_id in self._workers or worker_id in self._away:
            return
        self.ctx.absences.begin(worker_id, self.ctx.now())
        self.feeds.touch("workers")
        self._away[worker_id] = self._group.create_task(self._return_unstarted(worker_id), name="grace")

    async def _return_unstarted(self, worker_id: WorkerId) -> None:
        try:
            await asyncio.sleep(self.ctx.settings.session_grace_seconds)
            returned = await self.ctx.engine.run(
                ReturnUnstarted(principal=SYSTEM, worker_id=worker_id, home=self.ctx.engine.hub.stream)
            )
            with bound(worker=worker_id):
                log.info("worker %s did not reconnect: returned %d unstarted runs to their queues", worker_id, returned)
        except TreadleError as error:
            # They will return at their start timeout.
            log.warning("the unstarted runs of worker %s could not be returned: %s", worker_id, error.detail)
        finally:
            if self._away.get(worker_id) is asyncio.current_task():
                del self._away[worker_id]

    def _tell_workers(self, batch: Batch) -> None:
        """Push a commit's instructions to workers: to drain, and to stop cancelled, paused or lost runs."""
        if not self._workers:
            return
        for instructions in batch.instructions:
            self._pass_on(instructions)
        for worker in batch.workers:
            if (session := self._workers.get(worker.id)) is None:
                continue
            if worker.state is WorkerState.LOST:
                self._drop_lost(session)
            elif worker.state is WorkerState.DRAINING:
                self._ask_to_drain(session)
        # A run that its own worker reported has a digest, and the worker knows of its end.
        lost = [run for run in batch.runs if run.digest is None and run.worker_id in self._workers]
        ids = {change.task.seq: change.task.id for change in batch.tasks} if lost else {}
        for run in lost:
            if run.task_seq in ids and run.worker_id is not None:
                kind: Push = "gone" if run.reason in _TAKEN_AWAY else "cancel"
                self._workers[run.worker_id].push_of_runs(kind, [(ids[run.task_seq], run.run_id)])
        for change in batch.tasks:
            task = change.task
            if (
                task.cancel_requested
                and task.is_leased
                and change.was is task.status
                and task.worker_id in self._workers
            ):
                self._workers[task.worker_id].push_of_runs("pause", [(task.id, task.run_id)])

    def _ask_to_drain(self, session: Connection) -> None:
        """Push `drain`, unless the worker knows: it has announced that itself, or an answer has told it."""
        if not session.drains:
            session.drains = True
            session.push("drain")

    def _pass_on(self, instructions: Instructions) -> None:
        """Pass another server's instructions on to a worker."""
        session = self._workers.get(instructions.worker_id)
        if session is None:
            return
        if instructions.has_left:
            self._drop_lost(session)
            return
        for kind in _OF_RUNS:
            if runs := getattr(instructions, kind):
                session.push_of_runs(kind, runs)
