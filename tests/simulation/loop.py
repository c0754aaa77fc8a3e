"""An event loop of its own: time jumps to the next timer, and which process goes on is drawn from the seed.

anyio's loops run on the machine's clock and selector; a subclass of asyncio's base loop needs neither, and what Treadle
uses of asyncio (tasks, timeouts, locks, task groups) is the real thing. Within one process callbacks run in the order
in which they were called for, as asyncio promises; between processes any order may be. A process takes turns like a
real loop: what is ready when its turn begins runs in that turn. It may also stand still, as after SIGSTOP.
"""

import asyncio
import contextvars
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import count
from typing import Any

STEP = 20e-6
"""Seconds that a turn takes."""

MOST_TURNS = 3_000_000
"""Turns of a simulation at most: beyond, something spins."""


@dataclass(slots=True, eq=False)
class Process:
    """Something that runs by itself: a server, a worker, a client, the database."""

    name: str
    ready: deque[asyncio.Handle] = field(default_factory=deque)
    frozen_until: float = 0.0

    def context(self) -> contextvars.Context:
        """Return a new context in which callbacks and tasks are this process's."""
        context = contextvars.copy_context()
        context.run(PROCESS.set, self)
        return context


PROCESS: contextvars.ContextVar[Process] = contextvars.ContextVar("process")


class Stuck(Exception):
    """Nothing is left to wait for, or something spins."""


_numbers = count()


def _number(self: Any) -> int:
    """Number what is put into a set for the first time."""
    try:
        return self._number  # type: ignore[no-any-return]
    except AttributeError:
        self._number = number = next(_numbers)
        return number


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set does not hang on where it lies in memory."""

    __hash__ = _number


class NumberedFuture(asyncio.Future[Any]):
    """The same of a future."""

    __hash__ = _number


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs processes on one thread and on no clock."""

    def __init__(self, seed: str) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._now = 1_000.0
        self.main = Process("simulation")
        self._busy: list[Process] = []
        self.turns = 0
        self.set_task_factory(lambda loop, coro, **kwargs: NumberedTask(coro, loop=loop, **kwargs))

    def time(self) -> float:
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def start(self, process: Process, coro: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run a coroutine as a part of the process."""
        return self.create_task(coro, name=name, context=process.context())

    def freeze(self, process: Process, seconds: float) -> None:
        """Have the process stand still."""
        process.frozen_until = max(process.frozen_until, self._now + seconds)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:
        raise AssertionError(f"{func} would run in a thread, whose time nobody simulates")

    def _write_to_self(self) -> None:
        """Nothing sleeps that would have to be woken."""

    def _process_events(self, event_list: Any) -> None:
        """There are none."""

    def _run_once(self) -> None:
        self.turns += 1
        if self.turns > MOST_TURNS:
            raise Stuck(f"{MOST_TURNS} turns, and no end")
        self._collect()
        if self._stopping:
            return
        awake = [one for one in self._busy if one.frozen_until <= self._now]
        if not awake:
            self._sleep()
            return
        process = awake[int(self._chance.random() * len(awake))] if len(awake) > 1 else awake[0]
        ready = process.ready
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()
        self._collect()
        if not ready:
            self._busy.remove(process)
        self._now += STEP

    def _collect(self) -> None:
        """Give what is ready, and the timers that are due, to their processes."""
        while self._scheduled and self._scheduled[0]._when <= self._now:
            timer = heapq.heappop(self._scheduled)
            timer._scheduled = False
            if not timer._cancelled:
                self._ready.append(timer)
        while self._ready:
            handle = self._ready.popleft()
            process = handle._context.get(PROCESS, self.main)
            if not process.ready and process not in self._busy:
                self._busy.append(process)
            process.ready.append(handle)

    def _sleep(self) -> None:
        """Let time pass until something may go on."""
        while self._scheduled and self._scheduled[0]._cancelled:
            heapq.heappop(self._scheduled)._scheduled = False
        times = [one.frozen_until for one in self._busy]
        if self._scheduled:
            times.append(self._scheduled[0]._when)
        if not times:
            raise Stuck("everything waits for something else")
        self._now = max(self._now, min(times))
