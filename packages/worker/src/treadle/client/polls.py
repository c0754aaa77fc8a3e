"""Polling for the ends of tasks that someone waits for, while no socket is open to push them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from treadle.client.results import RawTask, ResultWaiters
from treadle.clock import monotonic
from treadle.errors import TaskNotFound, TreadleError
from treadle.transport.answers import reading
from treadle.transport.retries import HoldCut
from treadle.values import brief
from treadle.wire.status import TERMINAL

LONGEST = 60
"""The most seconds for which the server holds one request until the task ends."""

AT_ONCE = 32
"""The most requests that are held at once; further ones wait for their turn."""

ROUND = 5
"""In how many seconds each of more tasks gets its turn; longer only if that would leave each less than a second."""

COMING = 1.0
"""Seconds between two requests for a task that is yet to be submitted."""


class Polls:
    """Asks for each task's end until `waiters` have been told, or until polling is no longer needed."""

    def __init__(
        self,
        request: Callable[..., Awaitable[Any]],
        waiters: ResultWaiters,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        *,
        is_needed: Callable[[], bool],
    ) -> None:
        self._request = request
        self._waiters = waiters
        self._spawn = spawn
        self._is_needed = is_needed
        self._polled: set[str] = set()
        self._places = asyncio.Semaphore(AT_ONCE)
        self._held: dict[asyncio.Timeout, float] = {}
        """The latest time at which each request under way is answered."""

    def begin(self, ids: Iterable[str]) -> None:
        """Start polling for the ends of these tasks."""
        for task_id in set(ids) - self._polled:
            self._polled.add(task_id)
            self._spawn(self._poll(task_id))
        if len(self._polled) > AT_ONCE:
            # Requests begun when there were fewer tasks are held for longer, and would keep the others waiting.
            end = asyncio.get_running_loop().time() + self._share()
            for limit, over in self._held.items():
                if over > end and not limit.expired():
                    limit.reschedule(end)
                    self._held[limit] = end

    def _share(self) -> int:
        """Return for how many seconds one request may be held, so that each task gets its turn."""
        crowd = len(self._polled)
        return LONGEST if crowd <= AT_ONCE else max(1, ROUND * AT_ONCE // crowd)

    async def _poll(self, task_id: str) -> None:
        wait = LONGEST
        try:
            while self._is_needed():
                asked = monotonic()
                try:
                    task = await self._look(task_id, wait)
                except TaskNotFound:
                    if self._waiters.miss([task_id]):
                        return
                    await asyncio.sleep(COMING)
                except HoldCut as cut:
                    wait = cut.shorter
                else:
                    if task is not None and _has_ended(task, task_id):
                        self._waiters.arrive([task])
                        return
                    if task is not None and monotonic() - asked < COMING / 2:
                        # Whoever answers holds no request: it would be asked without a pause.
                        await asyncio.sleep(COMING)
        except TreadleError as error:
            self._waiters.refuse(task_id, error)
        finally:
            self._polled.discard(task_id)

    async def _look(self, task_id: str, wait: int) -> RawTask | None:
        """Return the task when it ends, or after `wait` seconds; None if more tasks joined and cut the wait short."""
        async with self._places:
            wait = min(wait, self._share())
            limit = asyncio.timeout(None)
            self._held[limit] = asyncio.get_running_loop().time() + wait
            try:
                async with limit:
                    task: RawTask = await self._request(
                        "GET", f"/v1/tasks/{task_id}", headers={"Prefer": f"wait={wait}"}, held=wait
                    )
                    return task
            except TimeoutError:
                if not limit.expired():
                    raise
                return None
            finally:
                del self._held[limit]


def _has_ended(task: RawTask, task_id: str) -> bool:
    with reading():
        if task["id"] != task_id or not isinstance(task["status"], str):
            raise ValueError(f"it tells of a task {brief(task['id'])} that is {brief(task['status'])}")
        return task["status"] in TERMINAL
