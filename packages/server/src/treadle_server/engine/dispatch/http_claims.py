"""Claims over HTTP: they wait, are repeated under their key, and are handed back when their caller has gone."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from treadle.wire.ids import WorkerId
from treadle.wire.status import WorkerState
from treadle_server.access.principal import Principal
from treadle_server.domain.jobs import Worker
from treadle_server.domain.tasks import ClaimKey, Task
from treadle_server.engine.commands import FindClaims, FindWorker
from treadle_server.engine.commands.base import Command
from treadle_server.engine.dispatch.dispatcher import Dispatcher
from treadle_server.engine.dispatch.slots import Capacity, WaitingClaim

COMMITTING = 0.05
"""Seconds between checks whether a claim is still being committed."""


class HttpClaims:
    """Lets claims over HTTP wait. `run` is the engine's, `wake` wakes the writer, `hand_back` queues their return."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        run: Callable[[Command[Any]], Awaitable[Any]],
        *,
        wake: Callable[[], None],
        hand_back: Callable[[WorkerId, list[Task]], None],
    ) -> None:
        self._dispatcher = dispatcher
        self._run = run
        self._wake = wake
        self._hand_back = hand_back

    async def claim(
        self, principal: Principal, worker_id: WorkerId, *, most: int = 1, wait: float = 0, key: ClaimKey | None = None
    ) -> list[Task]:
        """Claim up to `most` tasks for the worker, waiting up to `wait` seconds for the first.

        Tasks that were already claimed under the `key` are returned again, as far as the worker still holds them.
        Raises `WorkerNotFound`, `Forbidden`, `TaskConflict` if the key was used for another request, and whatever `run`
        raises. If the caller is cancelled, what was claimed is handed back unless there is a key to ask for it again.
        """
        worker: Worker = await self._run(FindWorker(principal=principal, worker_id=worker_id))
        if key is not None and (kept := await self._kept(principal, worker_id, key)) is not None:
            return kept
        waiting = _waiting_of(worker, most, wait, key)
        self._dispatcher.wait(waiting)
        self._wake()
        try:
            if wait <= 0:
                return await waiting.answer
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    return await asyncio.shield(waiting.answer)
            # The wait has ended; the writer may be claiming tasks for it at this moment.
            waiting.patient = False
            self._wake()
            return await waiting.answer
        except asyncio.CancelledError:
            self._take_back(waiting)
            raise
        finally:
            self._dispatcher.forget(waiting)

    # Under a key

    async def _kept(self, principal: Principal, worker_id: WorkerId, key: ClaimKey) -> list[Task] | None:
        """Return what was claimed under the key, or None if nothing was, and end an earlier claim that still waits."""
        while True:
            await self._end_earlier(worker_id, key)
            found: list[Task] | None = await self._run(FindClaims(principal=principal, worker_id=worker_id, key=key))
            if found is not None or self._dispatcher.waiting_under(worker_id, key) is None:
                return found

    async def _end_earlier(self, worker_id: WorkerId, key: ClaimKey) -> None:
        """Answer an earlier claim under the key, whose caller has gone, with nothing; or wait for its commit."""
        while (earlier := self._dispatcher.waiting_under(worker_id, key)) is not None:
            if not earlier.taken:
                self._dispatcher.forget(earlier)
                if not earlier.answer.done():
                    earlier.answer.set_result([])
                return
            # The wait needs an end, because a failed commit leaves the claim unanswered.
            await asyncio.wait({earlier.answer}, timeout=COMMITTING)

    # Without a caller

    def _take_back(self, waiting: WaitingClaim) -> None:
        """Hand back what was claimed for a caller that has gone (C1) and has no key to ask for it again."""
        self._dispatcher.forget(waiting)
        if waiting.answer.done() or waiting.taken:
            # If the commit is under way, its answer will say what to give back.
            waiting.answer.add_done_callback(lambda done: self._give_back(waiting, done))

    def _give_back(self, waiting: WaitingClaim, done: "asyncio.Future[list[Task]]") -> None:
        if waiting.key is None and not (done.cancelled() or done.exception()) and (claimed := done.result()):
            self._hand_back(waiting.worker_id, claimed)


def _waiting_of(worker: Worker, most: int, wait: float, key: ClaimKey | None) -> WaitingClaim:
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    waiting = WaitingClaim(worker.id, frozenset(worker.jobs), worker.pool, most, answer, patient=wait > 0, key=key)
    waiting.draining = worker.state is WorkerState.DRAINING
    waiting.presence.last_heartbeat = worker.last_heartbeat
    if worker.is_limited:
        waiting.limit = Capacity(worker.concurrency, worker.min_concurrency)
    return waiting
