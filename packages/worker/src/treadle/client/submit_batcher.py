"""Submits of many coroutines, collected into one request: a frame costs as much as twenty tasks in it."""

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from copy import copy
from typing import Any

from treadle.client.results import receipts
from treadle.clock import monotonic
from treadle.errors import (
    ConnectionLost,
    InvalidArguments,
    ProblemError,
    StoreUnavailable,
    TreadleError,
    error_for,
    problem_of,
)

MOST = 1000
"""The most tasks in one request; more of them make another request."""

PORTION = 50
"""How many answers are delivered at once; what their submitters send next goes out while the others are delivered.

So the server works on some tasks while the client prepares others. If a hundred coroutines got their answers all at
once, they had only one request under way between them: that made 27,000 and 17,000 tasks a second on SQLite and
PostgreSQL, and portions of 50 make 36,000 and 23,000.
"""

WORTH_PORTIONS = 4.0
"""Answers are delivered in portions if their request took at most this many times as long as its tasks took to collect.

A request that takes longer waits for the disk or the network, and one with half as many tasks takes just as long.
"""

Item = dict[str, Any]
ReceiptData = dict[str, Any]
Waiting = tuple[Item, "asyncio.Future[ReceiptData]"]
Send = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SubmitBatcher:
    """Collects what is submitted in a turn of the event loop, by room; each task is accepted or refused by itself."""

    def __init__(self, send: Send, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._send = send
        self._spawn = spawn
        self._waiting: dict[tuple[str, bool], list[Waiting]] = defaultdict(list)
        self._unanswered: set[asyncio.Future[ReceiptData]] = set()
        self._told_at = math.inf
        """When answers were last delivered. Infinity at first, as it is unknown how long the first tasks took to
        collect."""
        self._gathering = 0.0
        """Seconds from then until the latest request: how long its tasks took to collect."""

    async def add(self, room: str, item: Item, *, wait: bool) -> ReceiptData:
        """Submit one task and return its receipt; raises the `TreadleError` with which it is refused."""
        if not self._waiting:
            # It runs once every coroutine that submits in this turn of the loop has added its task.
            self._spawn(self._flush())
        future: asyncio.Future[ReceiptData] = asyncio.get_running_loop().create_future()
        self._waiting[room, wait].append((item, future))
        self._unanswered.add(future)
        try:
            return await future
        finally:
            self._unanswered.discard(future)

    def close(self) -> None:
        """Fail everyone who still waits, because the client was closed and nobody else will tell them."""
        self._waiting.clear()
        for future in self._unanswered:
            if not future.done():
                future.set_exception(ConnectionLost("the client was closed before the answer to the submit came"))

    async def _flush(self) -> None:
        waiting, self._waiting = self._waiting, defaultdict(list)
        self._gathering = monotonic() - self._told_at
        requests = [
            self._submit(room, batch[start : start + MOST], wait=wait)
            for (room, wait), batch in waiting.items()
            for start in range(0, len(batch), MOST)
        ]
        for other in requests[1:]:
            self._spawn(other)
        if requests:
            await requests[0]

    async def _submit(self, room: str, batch: list[Waiting], *, wait: bool) -> None:
        # Safe to send again after a lost answer: the same ids with the same content are the same tasks.
        fields = {"room": room, "tasks": [item for item, _ in batch], "wait": wait}
        asked, gathering = monotonic(), self._gathering
        try:
            answers = receipts(await self._send(fields), len(batch))
        except StoreUnavailable as error:
            # No single task is to blame, and half of them would wait just as long.
            _refuse(batch, error)
            return
        except (ProblemError, InvalidArguments) as error:
            await self._by_halves(room, batch, error, wait=wait)
            return
        except TreadleError as error:
            _refuse(batch, error)
            return
        self._told_at = monotonic()
        is_worth_it = self._told_at - asked < WORTH_PORTIONS * gathering
        await self._tell(list(zip(batch, answers, strict=True)), PORTION if is_worth_it else len(batch))

    async def _tell(self, told: Sequence[tuple[Waiting, dict[str, Any]]], portion: int) -> None:
        for first in range(0, len(told), portion):
            if first:
                await asyncio.sleep(0)
            for (_, future), answer in told[first : first + portion]:
                if future.done():
                    continue
                if (problem := answer.get("problem")) is not None:
                    future.set_exception(error_for(problem_of(problem)))
                else:
                    future.set_result(answer)

    async def _by_halves(self, room: str, batch: list[Waiting], error: TreadleError, *, wait: bool) -> None:
        """Submit a refused request in halves: it is too large or, over plain HTTP, one of its tasks is invalid."""
        if len(batch) == 1:
            _refuse(batch, error)
            return
        middle = len(batch) // 2
        for half in (batch[:middle], batch[middle:]):
            await self._submit(room, half, wait=wait)


def _refuse(batch: list[Waiting], error: TreadleError) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(copy(error))
