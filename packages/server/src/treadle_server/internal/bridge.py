"""The bridge: claims the tasks of `@internal` jobs for their executors and hands them over.

It has a slot at the engine's dispatcher, as any worker on the socket has, so queues, targets, pauses and limits apply
to these tasks too: a task is claimed in the transaction that submits it, or as soon as there is room for it, and given
to the broker only after the commit.
"""

import asyncio
import logging
import traceback
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import orjson
from starlette.types import ASGIApp
from uuid_utils import uuid7

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.jobs import JobRegister
from treadle.wire.log_lines import bound
from treadle.wire.names import INTERNAL
from treadle_server.domain.tasks import RunKey, Task
from treadle_server.engine.commands import Beat, FailDispatch, RegisterWorker, TakeOver
from treadle_server.engine.commands.internal import BROKER, EXECUTORS
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.hub import Batch
from treadle_server.engine.rules import check_category
from treadle_server.errors import StoreUnavailable, TreadleError, WorkerNotFound
from treadle_server.internal.executors import Executors
from treadle_server.internal.process_locks import ProcessLocks
from treadle_server.internal.tokens import InternalToken
from treadle_server.operations.carrying import carried_by
from treadle_server.operations.context import OperationContext
from treadle_server.operations.encode import dumps
from treadle_server.operations.encode_claims import claim_data
from treadle_server.operations.jobs import register_job
from treadle_server.services.base import Service
from treadle_server.store.base import Tx
from treadle_server.store.read import tasks as read_tasks
from treadle_server.store.read import workers as read_workers
from treadle_server.store.transaction import peers

log = logging.getLogger(__name__)

DISPATCH_SECONDS = 10.0
"""Seconds that connecting to a broker, handing it a task, and disconnecting may each take."""

DEAD = timedelta(seconds=30)
"""How long a server must be unseen to be presumed dead: it may not have dispatched its last claims to the broker."""


class Bridge(Service):
    """Connects the engine and the executors; as a service it sends heartbeats and keeps track of dispatched tasks.

    Raises `InvalidCategory` for executors of a job in a category that the server does not allow.
    """

    name = "internal"

    def __init__(self, ctx: OperationContext, executors: Executors, app: ASGIApp) -> None:
        super().__init__()
        for full_name, fields in executors.jobs().items():
            check_category(fields["category"], ctx.settings.allowed_categories, of=full_name)
        self._ctx = ctx
        self._engine = ctx.engine
        self._executors = executors
        self._app = app
        self._process_locks = ProcessLocks(ctx.settings.data_dir / "internal")
        self._dispatches: dict[TaskId, asyncio.Task[None]] = {}
        self._untold: list[FailDispatch] = []
        """Dispatches that failed while the database did not answer."""
        self._tokens = InternalToken(ctx)
        self._is_open = False
        self._missing_before: set[RunKey] = set()
        """Runs that the slot holds but that the database did not have at the last check."""
        self._dead: set[str] = set()
        """Servers that were presumed dead at the last check."""
        self._group: asyncio.TaskGroup
        self.worker_id = WorkerId(str(uuid7())) if executors.is_local else BROKER
        self._slot = WorkerSlot(
            worker_id=self.worker_id,
            jobs=frozenset(),
            pool=None,
            concurrency=executors.concurrency,
            min_concurrency=0,
            prefetch=0,
            deliver=self._deliver,
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serve the executors' jobs during the block. Raises the errors of their registration."""
        forget = self._engine.hub.listen(self._on_commit)
        async with asyncio.TaskGroup() as self._group:
            await self._begin()
            turns = self._group.create_task(self._ctx.supervised(self), name=self.name)
            try:
                yield
            finally:
                turns.cancel()
                forget()
                await self._end()

    async def _begin(self) -> None:
        if self._executors.is_local:
            self._process_locks.take(self.worker_id)
        gone = self._process_locks.gone()
        await self._register()
        if not self._executors.is_local:
            self._dead = await self._unseen()
        unstarted = await self._engine.run(TakeOver(gone=gone, successor=self.worker_id))
        self._process_locks.clear(gone)
        if gone:
            log.warning("%d processes with executors have ended: their tasks are taken over", len(gone))
        await self._open()
        self._slot.hold(await self._held())
        self._engine.open_slot(self._slot)
        # The broker may have them already; only one start will be accepted.
        self._deliver(unstarted)

    async def _open(self) -> None:
        """Connect to the broker. An external one may be down; other jobs are served nevertheless."""
        try:
            async with self._limited():
                await self._executors.open(self._app)
        except Exception as error:
            if self._executors.is_local:
                raise
            log.warning("the broker of the @internal jobs can't be reached; retrying: %r", error)
        else:
            self._is_open = True

    async def _close(self) -> None:
        try:
            async with self._limited():
                await self._executors.close()
        except Exception:
            # The tasks that they leave are taken over nevertheless.
            log.exception("the executors failed to shut down")

    @asynccontextmanager
    async def _limited(self) -> AsyncIterator[None]:
        """Limit the time of the block to `DISPATCH_SECONDS` for a broker; executors in this process have no limit.

        Raises `TimeoutError`; and `RuntimeError` when the broker's client was cancelled but this task was not, because
        a `CancelledError` would end the service silently and leave a run undispatched until its timeout.
        """
        mine = asyncio.current_task()
        try:
            async with asyncio.timeout(None if self._executors.is_local else DISPATCH_SECONDS):
                yield
        except asyncio.CancelledError as error:
            if mine is None or mine.cancelling():
                raise
            raise RuntimeError("the broker's client was cancelled") from error

    async def _register(self) -> None:
        """Register the worker that represents the executors, and their jobs."""
        name = "executors" if self._executors.is_local else "broker"
        worker = RegisterWorker(
            principal=EXECUTORS, id=self.worker_id, name=name, group=INTERNAL, concurrency=self._executors.concurrency
        )
        await self._engine.run(worker)
        for fields in self._executors.jobs().values():
            wanted = JobRegister.model_validate(fields)
            done = await register_job(
                self._ctx, EXECUTORS, INTERNAL, wanted, make_worker=False, worker_id=self.worker_id
            )
            self._slot.jobs |= {done.job.num}

    async def _end(self) -> None:
        """Take no more tasks, let the executors end, and release the runs that end with this process."""
        self._engine.close_slot(self._slot)
        if not self._executors.is_local:
            await self._dispatched()
            await self._close()
            return
        await self._close()
        await self._dispatched()
        try:
            await self._engine.run(TakeOver(gone=[self.worker_id], is_dead=False))
        except TreadleError as error:
            log.warning("the executors' tasks are left to the next start: %s", error.detail)
            self._process_locks.leave(is_done=False)
        else:
            self._process_locks.leave(is_done=True)

    # Dispatch

    def _deliver(self, tasks: list[Task]) -> None:
        for task in tasks:
            dispatch = self._group.create_task(self._dispatch(task), name=f"dispatch of {task.id}")
            self._dispatches[task.id] = dispatch
            dispatch.add_done_callback(partial(self._forget, task.id))

    def _forget(self, task_id: TaskId, done: "asyncio.Task[None]") -> None:
        if self._dispatches.get(task_id) is done:
            del self._dispatches[task_id]

    async def _dispatch(self, task: Task) -> None:
        try:
            claim = await self._claim(task)
            async with self._limited():
                await self._executors.dispatch(claim)
        except Exception as error:  # noqa: BLE001 - whatever a broker raises
            with bound(task=task.id, run=task.run_id):
                log.warning("task %s, run %d, could not be dispatched: %r", task.id, task.run_id, error)
            cause = "".join(traceback.format_exception(error))
            await self._fail(FailDispatch(task_id=task.id, run_id=task.run_id, cause=cause))

    async def _fail(self, failure: FailDispatch) -> None:
        try:
            await self._engine.run(failure)
        except TreadleError as error:
            log.warning("a failed dispatch could not be reported; retrying: %s", error.detail)
            self._untold.append(failure)

    async def _claim(self, task: Task) -> dict[str, Any]:
        """Return the claim for its executor, with the token for its requests to the server."""
        token = await self._tokens.current()
        carried = (await carried_by(self._ctx, [task])).get(task.id)
        claim: dict[str, Any] = orjson.loads(dumps(claim_data(task, self._ctx.now(), token, carried)))
        return claim

    async def _dispatched(self, task_ids: Collection[TaskId] | None = None) -> None:
        """Wait until all tasks that are being dispatched, or the given ones among them, have been."""
        under_way = [one for task_id, one in self._dispatches.items() if task_ids is None or task_id in task_ids]
        if under_way:
            await asyncio.wait(under_way)

    async def handed_over(self, task_ids: Collection[TaskId]) -> dict[TaskId, Task]:
        """Wait until the new tasks that are claimed have been dispatched, and return the tasks' states then.

        An executor may have started or even ended them, and the dispatch may have failed. Nothing is returned while the
        store can't be read.
        """
        await self._dispatched(task_ids)
        try:
            async with self._engine.store.read() as connection:
                return await read_tasks.by_ids(connection, task_ids)
        except StoreUnavailable:
            # The tasks are submitted, so an error would be wrong.
            return {}

    # As a service

    def _on_commit(self, batch: Batch) -> None:
        """Make local executors check at once when a commit has ended or paused one of their runs."""
        if not self._executors.is_local:
            return
        ended = any(run.digest is None and run.worker_id == self.worker_id for run in batch.runs)
        asked = any(c.task.cancel_requested and c.task.worker_id == self.worker_id for c in batch.tasks)
        if ended or asked:
            self._executors.nudge()

    async def turn(self) -> float:
        """Send the executors' heartbeat, and report failed dispatches. Raises the broker's errors when it is down."""
        if not self._is_open:
            async with self._limited():
                await self._executors.open(self._app)
            self._is_open = True
        untold, self._untold = self._untold, []
        for failure in untold:
            await self._fail(failure)
        try:
            await self._engine.run(Beat(principal=EXECUTORS, worker_id=self.worker_id, tasks=[], revives=False))
        except WorkerNotFound:
            log.warning("the worker of the @internal jobs was lost or removed; registering it again")
            await self._register()
        await self._look_at_slot()
        if not self._executors.is_local:
            await self._look_at_servers()
        settings = self._ctx.settings
        return min(settings.sweeper_interval_seconds, settings.worker_timeout_seconds / 3)

    async def _look_at_slot(self) -> None:
        """Release runs from the slot whose end was reported to another server."""
        before = set(self._slot.held)
        held = await self._held()
        # A claim that is being committed is not visible yet, so only a run that is missing twice has ended.
        missing = before - held.keys()
        ended, self._missing_before = missing & self._missing_before, missing
        if ended:
            self._engine.dispatcher.release(ended, self._engine.clock.monotonic())
            self._engine.slot_changed()

    async def _look_at_servers(self) -> None:
        """Dispatch unstarted tasks again when a server has died, since it commits a claim before it dispatches it."""
        dead = await self._unseen()
        if dead - self._dead:
            self._deliver(await self._engine.run(TakeOver(successor=self.worker_id)))
        self._dead = dead

    async def _unseen(self) -> set[str]:
        store = self._engine.store
        async with store.read() as connection:
            return await peers.unseen(Tx(connection, store.dialect), store.clock.now() - DEAD)

    async def _held(self) -> dict[RunKey, int]:
        async with self._engine.store.read() as connection:
            open_runs = await read_workers.holding(connection, self.worker_id)
            return open_runs | await read_workers.stopping(connection, self.worker_id)
