"""Submits of many coroutines, gathered into one request: a frame costs as much as twenty tasks in it."""

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
"""Tasks of one request; further ones make the next."""

PORTION = 50
"""Answers that are told at once: what those submit who have them is sent while the others are told.

So the server works on some tasks while the client prepares others. A hundred coroutines that were all told together
had one request under way between them: 27,000 and 17,000 tasks a second on SQLite and PostgreSQL, and 36,000 and
23,000 in portions of 50.
"""

WORTH_PORTIONS = 4.0
"""So many times as long as its tasks took to come together a request may take, for its answers to be told in portions.

Where it takes longer the disk or the network is what is waited for, and a request of half as many takes as long.
"""

Item = dict[str, Any]
ReceiptData = dict[str, Any]
Waiting = tuple[Item, "asyncio.Future[ReceiptData]"]
Send = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


class SubmitBatcher:
    """What was submitted in this turn of the loop, by room; each task is taken or refused by itself."""

    def __init__(self, send: Send, spawn: Callable[[Coroutine[Any, Any, None]], object]) -> None:
        self._send = send
        self._spawn = spawn
        self._waiting: dict[tuple[str, bool], list[Waiting]] = defaultdict(list)
        self._unanswered: set[asyncio.Future[ReceiptData]] = set()
        self._told_at = math.inf
        """When answers were told last: of the first request it is not known how long its tasks took."""
        self._gathering = 0.0
        """Seconds from then until the latest request: what it took its tasks to come together."""

    async def add(self, room: str, item: Item, *, wait: bool) -> ReceiptData:
        """Submit one task and return its receipt; raises the `TreadleError` that it is refused with."""
        if not self._waiting:
            # It begins when everybody has added who does so in this turn of the loop.
            self._spawn(self._flush())
        future: asyncio.Future[ReceiptData] = asyncio.get_running_loop().create_future()
        self._waiting[room, wait].append((item, future))
        self._unanswered.add(future)
        try:
            return await future
        finally:
            self._unanswered.discard(future)

    def close(self) -> None:
        """The client is closed: whoever still waits is told, for nobody else will."""
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
        # Sent again after a lost answer: the same ids with the same content are the same tasks.
        fields = {"room": room, "tasks": [item for item, _ in batch], "wait": wait}
        asked, gathering = monotonic(), self._gathering
        try:
            answers = receipts(await self._send(fields), len(batch))
        except StoreUnavailable as error:
            # None of them is to blame: a half would be waited for as long.
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
        """Find those for which a request was refused as a whole: it is too large, or over plain HTTP one is wrong."""
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
