"""Steps of a task's code, which run once and whose results later runs get; `Context` has the methods for them.

The same coroutines serve asynchronous and synchronous code: in a synchronous task nothing that they await ever waits,
so that they run through in one go (`finished`).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from datetime import datetime, timedelta
from threading import Lock
from typing import Any, NoReturn, Protocol

from treadle.client.options import seconds
from treadle.errors import BadValue, InvalidStep, StepMismatch
from treadle.loops import has_loop
from treadle.tasks.endings import meant
from treadle.tasks.outcomes import Interrupted, Suspend, TaskOutcome
from treadle.tasks.step_calls import check_function, name_of, returned, run
from treadle.values import brief
from treadle.wire.amounts import counted, in_seconds
from treadle.wire.fields import LONGEST_TEXT, TEN_YEARS
from treadle.wire.steps import MOST_STEPS
from treadle.wire.values import fault

FIRST_PAUSE = 1.0
"""Seconds before a step's first retry; each further pause is twice as long."""

LONGEST_PAUSE = 60.0

MOST_RETRIES = 1_000_000
"""The most retries of a step, as of a task."""

SLEEP = "sleep"
"""The name of steps that only sleep."""

_inside: ContextVar[str | None] = ContextVar("treadle_step", default=None)
"""The name of the step whose function is running."""

Kept = dict[str, Any]
"""A kept step, as a `StepItem`."""


class StepPort(Protocol):
    """Where a run's steps are sent; if the code is synchronous, the awaitables are already done."""

    def kept_steps(self) -> Awaitable[list[Kept]]:
        """Read all steps that the task keeps."""

    def keep_step(self, step: dict[str, Any]) -> Awaitable[None]:
        """Keep a step, a `StepDone`; the awaitable ends when it is stored."""

    def receive(self, step: dict[str, Any]) -> Awaitable[Kept | None]:
        """Receive a message by a step, a `StepRef`, and return the step; None if no message waits."""


class Steps:
    """The steps of one run. Its `claim` says how many the task keeps, and carries them if they are few and small."""

    def __init__(
        self,
        port: StepPort,
        claim: Mapping[str, Any],
        wait_cancelled: Callable[[float], bool],
        to_be_awaited: Callable[[str, Coroutine[Any, Any, Any]], Any] | None,
    ) -> None:
        self._to_be_awaited = to_be_awaited
        """Records a coroutine that is given to async code; None for synchronous code."""
        self._is_async = to_be_awaited is not None
        self._port = port
        self._known: int = claim.get("steps") or 0
        self._wait_cancelled = wait_cancelled
        self._count = self._known
        """How many steps the task keeps by now."""
        self._asked: dict[str, int] = {}
        self._kept: dict[tuple[str, int], Kept] | None = None
        self._unasked: set[tuple[str, int]] = set()
        carried: list[Kept] = claim.get("kept_steps") or []
        if len(carried) == self._known:
            self._learn(carried)
        self._loading: asyncio.Future[list[Kept]] | None = None
        self._threads: set[Future[Any]] = set()
        """Calls in threads that have not returned yet."""
        self._lock = Lock()
        self._mismatch: StepMismatch | None = None
        self.suspended: Suspend | None = None
        """How the run is to end, once the code has asked to sleep or wait."""

    def call(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        *,
        retries: int,
        timeout: float | timedelta | None,
    ) -> Any:
        """Return the step's result, or in async code an awaitable of it.

        `timeout` is in seconds for each call; `retries` is the number of calls besides the first. Raises as
        `Context.step` does.
        """
        self._check(name)
        check_function(name, function)
        if not (isinstance(retries, int) and not isinstance(retries, bool) and 0 <= retries <= MOST_RETRIES):
            raise InvalidStep(
                f"step {name!r}: retries must be a whole number from 0 to {MOST_RETRIES:,}, not {brief(retries)}"
            )
        limit = None if timeout is None else _length(f"step {name!r}: timeout", timeout)
        occurrence = self._next(name)
        return self._given(name, occurrence, self._called(name, occurrence, function, args, retries, limit))

    def sleep(self, delay: float | timedelta) -> Any:
        """End the run for the given time; in the run that follows it, return at once."""
        self._check(SLEEP)
        length = _length("sleep: delay", delay)
        occurrence = self._next(SLEEP)
        return self._given(SLEEP, occurrence, self._slept(occurrence, length))

    def receive(self, name: str, timeout: float | timedelta | None) -> Any:
        """Return the data of the next message of this name; end the run until it comes. Raises `TimeoutError`."""
        self._check(name)
        length = TEN_YEARS if timeout is None else _length(f"receive {name!r}: timeout", timeout)
        occurrence = self._next(name)
        return self._given(name, occurrence, self._received(name, occurrence, length))

    def check_end(self) -> None:
        """Raise `StepMismatch` if the code has returned in contradiction to its steps."""
        if self._mismatch is not None:
            raise self._mismatch
        if self.suspended is not None:
            raise StepMismatch(
                f"the code returned although step {self.suspended.step!r} had asked it to stop: let the exception"
                " of ctx.sleep and ctx.receive through (a BaseException)"
            )
        if self._kept is None:
            raise unasked(self._known)
        if self._unasked:
            raise unasked(len(self._unasked), _shown(*min(self._unasked)))

    @property
    def has_threads(self) -> bool:
        """Whether a function of a step is running in a thread."""
        return bool(self._threads)

    async def threads_ended(self) -> None:
        """Wait until no function of a step runs in a thread any more, since threads can't be stopped."""
        await asyncio.gather(*map(asyncio.wrap_future, tuple(self._threads)), return_exceptions=True)

    def _given(self, name: str, occurrence: int, work: Coroutine[Any, Any, Any]) -> Any:
        """Return a coroutine for async code to await, or its result for synchronous code."""
        if self._to_be_awaited is None:
            return finished(work)
        return self._to_be_awaited(_shown(name, occurrence), work)

    def _check(self, name: str) -> None:
        """Raise `InvalidStep` for an invalid name, and where no step is allowed."""
        if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_TEXT or fault(name) is not None:
            raise InvalidStep(
                f"name: a step's name must be 1 to {LONGEST_TEXT} characters of valid Unicode, not {brief(name)}"
            )
        if (outer := _inside.get()) is not None:
            raise InvalidStep(f"step {name!r} is inside step {outer!r}: steps can't be nested")
        if self._is_async and not has_loop():
            raise InvalidStep(f"step {name!r} is called in a thread of an async task: await it in the task's own code")

    def _next(self, name: str) -> int:
        """Count a use of the step's name, and return how often the name was used before."""
        with self._lock:
            occurrence = self._asked.get(name, 0)
            self._asked[name] = occurrence + 1
        return occurrence

    async def _known_as(self, name: str, occurrence: int, kind: str, function: str | None = None) -> Kept | None:
        """Return a step that an earlier run kept. Raises `StepMismatch` if it was something else."""
        if self._mismatch is not None:
            raise self._mismatch
        if self._kept is None:
            found = await self._load()
            with self._lock:
                # If several threads have read the steps at once, only the first stores them, so that the steps it then
                # asks for stay marked as asked for.
                if self._kept is None:
                    self._learn(found)
        assert self._kept is not None
        self._unasked.discard((name, occurrence))
        kept = self._kept.get((name, occurrence))
        if kept is None or (kept["kind"], kept.get("function")) == (kind, function):
            return kept
        self._mismatch = StepMismatch(
            f"{_shown(name, occurrence)} was {_what(kept['kind'], kept.get('function'))} when it was kept, and is"
            f" now {_what(kind, function)}. {_WHAT_TO_DO}"
        )
        raise self._mismatch

    def _learn(self, found: Iterable[Kept]) -> None:
        kept = {(one["step"], one["occurrence"]): one for one in found}
        # Set `_unasked` first: whoever sees `_kept` removes from it what was asked for.
        self._unasked = set(kept)
        self._kept = kept

    async def _load(self) -> list[Kept]:
        """Read the kept steps that the claim did not carry, once for all that ask at the same time."""
        if not self._is_async:
            return await self._port.kept_steps()
        if self._loading is None:
            self._loading = asyncio.ensure_future(self._port.kept_steps())
            # Retrieve the exception, so that asyncio does not warn of it if all who asked were cancelled.
            self._loading.add_done_callback(lambda loading: loading.cancelled() or loading.exception())
        return await asyncio.shield(self._loading)

    async def _called(
        self,
        name: str,
        occurrence: int,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        retries: int,
        timeout: float | None,  # noqa: ASYNC109 - the step's own
    ) -> Any:
        called = name_of(function)
        kept = await self._known_as(name, occurrence, "call", called)
        if kept is not None:
            return returned(function).read(kept.get("result"))
        if self._count >= MOST_STEPS:
            # Its function must not be called: the result could not be kept.
            raise InvalidStep(
                f"step {name!r}: a task may have at most {MOST_STEPS:,} steps: do more in each step, or submit further"
                " tasks"
            )
        began = time.monotonic()
        value = await self._tried(name, function, args, retries, timeout)
        result = returned(function).write(value, f"step {name!r}")
        took = time.monotonic() - began
        said = {"step": name, "occurrence": occurrence, "function": called, "result": result, "seconds": took}
        await self._port.keep_step(said)
        self._count += 1
        # Returned as later runs will read it, so that all runs see the same value.
        return returned(function).read(result)

    async def _tried(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        retries: int,
        timeout: float | None,  # noqa: ASYNC109
    ) -> Any:
        pause = FIRST_PAUSE
        for left in range(retries, -1, -1):
            token = _inside.set(name)
            try:
                return await run(name, function, args, timeout, in_loop=self._is_async, threads=self._threads)
            except Exception as error:
                if not left or isinstance(meant(error), TaskOutcome | StepMismatch | InvalidStep | BadValue):
                    raise
            finally:
                _inside.reset(token)
            await self._rest(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        raise AssertionError("the last try returns or raises")

    async def _rest(self, pause: float) -> None:
        if self._is_async:
            await asyncio.sleep(pause)
        elif self._wait_cancelled(pause):
            raise Interrupted("the run was asked to stop")

    async def _slept(self, occurrence: int, length: float) -> None:
        if await self._known_as(SLEEP, occurrence, "sleep") is None:
            self._suspend(SLEEP, occurrence, length, receives=False)

    async def _received(self, name: str, occurrence: int, length: float) -> Any:
        kept = await self._known_as(name, occurrence, "receive")
        if kept is None:
            kept = await self._port.receive({"step": name, "occurrence": occurrence})
            self._count += kept is not None
        if kept is None:
            self._suspend(name, occurrence, length, receives=True)
        if kept.get("received_at") is None:
            raise TimeoutError(f"no message {name!r} came within {in_seconds(_waited(kept))}")
        return kept.get("result")

    def _suspend(self, name: str, occurrence: int, length: float, *, receives: bool) -> NoReturn:
        self.suspended = self.suspended or Suspend(name, occurrence, length, receives=receives)
        raise self.suspended


_WHAT_TO_DO = (
    "Give the task back the code that it began with and resume it, or rerun it from its start"
    " (treadle rerun ID) or from the step that has changed (treadle rerun ID --from-step NAME)"
)


def _length(what: str, given: float | timedelta) -> float:
    length = seconds(given)
    if isinstance(length, datetime):
        raise InvalidStep(f"{what}: give the duration until then, as in at - datetime.now(UTC), not {brief(given)}")
    if isinstance(length, bool) or not isinstance(length, int | float) or not 0 <= length <= TEN_YEARS:
        raise InvalidStep(
            f"{what}: write seconds from 0 up, at most {TEN_YEARS:,.0f} (ten years), or a timedelta, not {brief(given)}"
        )
    return float(length)


def _waited(kept: Kept) -> float:
    """Return how many seconds an ended wait took, to the millisecond; an edit of the task may have ended it early."""
    at, until = (datetime.fromisoformat(kept[name]) for name in ("at", "until"))
    return round((until - at).total_seconds(), 3)


def _shown(name: str, occurrence: int) -> str:
    return f"step {name!r}" if occurrence == 0 else f"step {name!r} (number {occurrence + 1} of that name)"


def _what(kind: str, function: str | None) -> str:
    return f"a call of {function}" if kind == "call" else f"a {kind}"


def finished(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result. Raises `RuntimeError` if it does wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    work.close()
    raise RuntimeError("what a synchronous step awaited did not finish")


def unasked(number: int, first: str | None = None) -> StepMismatch:
    """Return the error for code that has completed without asking for steps that its task keeps."""
    kept = counted(number, "step")
    which = f"{kept} that the task has kept" if first is None else f"{first}, which the task keeps"
    return StepMismatch(f"the code completed without asking for {which}: was it changed? {_WHAT_TO_DO}")
