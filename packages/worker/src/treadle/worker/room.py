"""Waiting for the system: code for which it has no thread or process waits until other code here has ended."""

import asyncio
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial

from treadle.clock import monotonic
from treadle.isolation.processes import Children
from treadle.isolation.threads import Lacking
from treadle.tasks import endings
from treadle.tasks.endings import Ending
from treadle.worker.lease import Held
from treadle.worker.timing import Timing

log: logging.Logger = logging.getLogger("treadle.worker")

GONE = 1.0
"""Seconds until the system has reclaimed what ended code used: a thread reports its end before it is gone."""

PAUSE = 0.02
"""Seconds between two attempts meanwhile."""

Ended = tuple[Ending, BaseException | None]
"""The report of code that ended, and what it raised."""


class Room:
    """Starts code in threads and processes, as many as the system allows, which may be fewer than the concurrency.

    Code that finds no room waits here, first come, first served, at no cost to its task: if it were put back in the
    queue, it would come here again at once and use up its requeues. It is put back only if no other code of this worker
    has room either.
    """

    def __init__(self, children: Children) -> None:
        self._children = children
        self._begun = 0
        """How many calls have room, or are looking for it."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_told = False
        self._ended_at = -math.inf
        """When code last ended, by the local monotonic clock."""

    async def run(self, held: Held, timing: Timing, code: Callable[[], Awaitable[Ended]]) -> Ended:
        """Call the code until it doesn't raise `Lacking`, which means that it could not begin; return how it ended."""
        while True:
            self._begun += 1
            try:
                ended = await code()
            except Lacking as lacks:
                error = lacks
            except BaseException:
                self._end()
                raise
            else:
                self._end()
                return ended
            self._begun -= 1
            if held.stop is None and (await self._children.end_idle() or await self._comes_to(held, timing, error)):
                continue
            # The next one checks for itself whether there is still something to wait for.
            self._wake()
            return endings.raised(error), error

    async def _comes_to(self, held: Held, timing: Timing, error: Lacking) -> bool:
        """Wait until there may be room; return whether to try again, which is not so if the run is to stop."""
        if self._begun:
            self._tell(error)
            await self._wait(held, timing)
        elif monotonic() < self._ended_at + GONE:
            await asyncio.sleep(PAUSE)
        else:
            return False
        return held.stop is None

    def _end(self) -> None:
        self._ended_at = monotonic()
        self._begun -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if _take(turn):
                return

    async def _wait(self, held: Held, timing: Timing) -> None:
        """Wait for room, or until the run is told to stop; its timeout does not count meanwhile."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        stop = held.stop_code
        held.stop_code = partial(_take, turn)
        counts = timing.end()
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._wake()
            raise
        finally:
            held.stop_code = stop
            if counts:
                timing.begin()

    def _tell(self, error: Lacking) -> None:
        if not self._is_told:
            self._is_told = True
            log.warning("%s; %d running, and the other claimed tasks wait until one of them ends", error, self._begun)


def _take(turn: "asyncio.Future[None]") -> bool:
    """Let a waiting call go on; return whether it was still waiting."""
    if turn.done():
        return False
    turn.set_result(None)
    return True
