"""The worker, which claims tasks, runs them, and reports how they ended."""

import asyncio
import logging
import os
import socket
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from copy import copy
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Literal, Never

from treadle import logs
from treadle.client.names import Names
from treadle.client.options import length_of
from treadle.encryption.sealer import Sealer
from treadle.errors import ConnectionFailed, DefinitionError, LoopTaken, NoCodec, TreadleError, WouldBlock
from treadle.isolation.loading import check_may_begin
from treadle.loops import ended_by, has_loop, loop_factory
from treadle.system_threads import has_greenlets
from treadle.tasks.definition import Task
from treadle.tasks.registry import by_name
from treadle.transport.bearer import bearer_of
from treadle.values import brief
from treadle.variables import untold
from treadle.wire.fields import LONGEST_TEXT
from treadle.wire.values import fault
from treadle.worker import lifespan as lifespans
from treadle.worker.config import Lifespan, WorkerConfig
from treadle.worker.middleware import Middleware, checked

if TYPE_CHECKING:
    from treadle.encryption.codec import Codec
    from treadle.settings import Settings

log = logging.getLogger("treadle.worker")

_LOOP_STOPPED = "Event loop stopped before Future completed."
"""The message of asyncio and uvloop for a loop that was stopped from within."""


class _Ready(asyncio.Event):
    """An event that may never be set, because the worker ends before: then whoever waits gets an error."""

    def __init__(self) -> None:
        super().__init__()
        self._error: TreadleError | None = None

    def is_set(self) -> bool:
        """Return whether the server has accepted the worker."""
        return super().is_set() and self._error is None

    async def wait(self) -> Literal[True]:
        """Wait until the server has accepted the worker; raises the error with which it ended before."""
        await super().wait()
        if self._error is not None:
            raise copy(self._error)
        return True

    def fail(self, error: BaseException | None) -> None:
        """Raise the worker's error in those who wait; does nothing if the worker was ready."""
        if not self.is_set():
            ended = ConnectionFailed("the worker ended before a server had accepted it")
            # A copy, because the error's traceback would keep alive what is in its frames, this event among it.
            self._error = copy(error) if isinstance(error, TreadleError) else ended
            self.set()


class Worker:
    """Runs tasks until it is stopped: `Worker([rdf], concurrency=8).run()`.

    - `concurrency`: the most weight of tasks that runs at once.
    - `min_concurrency`: ask for more tasks only when less weight than this is running.
    - `prefetch`: weight to claim beyond the concurrency, which saves a round trip when tasks are short. By default the
      server hands out ahead as much as the worker finishes in 0.1 s and one round trip; a task that has waited one or
      two seconds without moving on is handed back.
    - `url`, `token`, `codec` (the keys of encrypted tasks): by default from the environment, as are the tasks'
      defaults.
    - `lifespan`: an async context manager whose value all tasks share as `ctx.resources`.
    - `middleware`: wraps each run, the first one outermost: `async def m(ctx, call_next)`.
    - `drain_grace`: seconds (or a timedelta) that running tasks have to finish when the worker is stopped; tasks that
      do not are handed back.
    - `max_idle`: stop after so many seconds (or a timedelta) connected to a server with nothing to run.
    - `replace_schema`: let a new version of a task replace the registered schema. A version that only widens it, for
      instance by an optional argument, may replace it anyway.

    Raises `DuplicateTask` when two tasks share a name; `DefinitionError` for an invalid task, lifespan or middleware,
    and for a task with isolation="process" that a child process can't import; `NoCodec` for an encrypted task without
    keys; `ValueError` for numbers out of range; `InvalidSetting` for an invalid URL or key.
    """

    def __init__(
        self,
        tasks: Iterable[Task[..., Any]],
        *,
        concurrency: int = 8,
        min_concurrency: int = 0,
        prefetch: int | None = None,
        url: str | None = None,
        token: str | None = None,
        name: str | None = None,
        group: str | None = None,
        pool: str | None = None,
        lifespan: Lifespan | None = None,
        drain_grace: float | timedelta = 30.0,
        max_idle: float | timedelta | None = None,
        replace_schema: bool = False,
        middleware: Iterable[Middleware] = (),
        settings: "Settings | None" = None,
        codec: "Codec | None" = None,
    ) -> None:
        from treadle.encryption.keys import codec_of
        from treadle.settings import Settings, split_urls

        named = by_name(tasks)
        if not named:
            raise DefinitionError("a worker needs at least one task: Worker([my_task])")
        grace = length_of("drain_grace", drain_grace)
        longest_idle = inf if max_idle is None else length_of("max_idle", max_idle, may_be_zero=False)
        _check(concurrency, min_concurrency, prefetch)
        _check_texts({"name": name, "group": group, "pool": pool})
        for task in named.values():
            if task.isolation == "process":
                from treadle.isolation.processes import origin_of

                origin_of(task)
        settings = settings or Settings()
        urls = split_urls(url) if url else settings.urls
        sealer = Sealer(codec or codec_of(settings))
        _check_keys(named.values(), sealer)
        self.config: WorkerConfig = WorkerConfig(
            tasks=named,
            urls=urls,
            token=bearer_of(token, settings),
            concurrency=concurrency,
            min_concurrency=min_concurrency,
            prefetch=prefetch,
            name=name or f"{socket.gethostname()}-{os.getpid()}",
            group=group,
            pool=pool,
            lifespan=lifespans.checked(lifespan),
            drain_grace=grace,
            max_idle=None if longest_idle == inf else longest_idle,
            replace_schema=replace_schema,
            settings=settings,
            names=Names(urls),
            middleware=checked(middleware),
            sealer=sealer,
        )
        self.ready: asyncio.Event = _Ready()
        """Set once the server has accepted the worker and it takes tasks; replaced by a new event when the worker has
        ended. If it ends before it is ready, `wait` raises its error, or `ConnectionFailed` if it was stopped."""
        self.id: str | None = None
        """The worker's id on the server, once it is ready."""
        self._stops = asyncio.Event()
        self._hurry: Callable[[], None] | None = None
        self._taken: Callable[[str], TreadleError] = LoopTaken
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop in which it is running."""

    def __getstate__(self) -> Never:
        raise TypeError("a worker belongs to the process that created it: create one in each process")

    def run(self) -> None:
        """Run until SIGTERM, SIGINT, SIGHUP or `stop`, then drain. A second signal ends the grace.

        A second SIGHUP does not, because closing a terminal sends two; under nohup SIGHUP is ignored. Outside the main
        thread no signal ends the worker, only `stop`. If `TREADLE_LOG_FORMAT` is set and logging is not configured yet,
        the log is written to standard error; JSON needs structlog, and raises `treadle.logs.NoStructlog` without it.

        Raises `WouldBlock` if an event loop is already running: use `await worker.run_async()` there. Raises the
        `ProblemError` with which a server refuses the worker (`Unauthorized`, `Forbidden`, `SchemaConflict` …);
        `DuplicateTask` when this process already uses another module's task of the same name at that server;
        `DefinitionError` for an annotation that JSON Schema can't describe, for an invalid lifespan, and in a child
        process that imports the program (put the call under `if __name__ == "__main__":`); `InvalidArguments` for a
        schedule with arguments that its task does not accept; and `LoopTaken` when a task's code ends the event loop.
        """
        if has_loop():
            raise WouldBlock("an event loop is already running in this thread: use `await worker.run_async()`")
        if "log_format" in self.config.settings.model_fields_set:
            logs.begin(self.config.settings.log_format)
        for sentence in untold():
            log.warning("%s", sentence)
        # Where gevent has replaced the main thread, uvloop does not find it, and takes no signals.
        with asyncio.Runner(loop_factory=None if has_greenlets() else loop_factory()) as runner:
            try:
                runner.run(self._run_with_signals())
            except asyncio.CancelledError:
                # Signals are handled, and nobody else has this asyncio task to cancel, so a task's code did it.
                from treadle.worker.worker_run import CANCELLED

                raise self._taken(CANCELLED) from None
            except RuntimeError as error:
                if str(error) != _LOOP_STOPPED:
                    raise
                raise self._taken("stopped the loop") from None

    async def run_async(self) -> None:
        """Run in this event loop until `stop` is called; raises as `run` does. Cancelling it hands back running tasks.

        A worker that has ended may run again, even in another loop. Raises `RuntimeError` if it is already running, as
        `run` does, and if no asyncio event loop is running, as under Trio.
        """
        if not has_loop():
            raise RuntimeError(
                "no asyncio event loop is running here, and a worker needs one: under Trio run it in a thread,"
                " `await anyio.to_thread.run_sync(worker.run)`, and end it with `worker.stop()`"
            )
        await self._run(is_alone=False)

    async def _run(self, *, is_alone: bool) -> None:
        from treadle.tasks.registrations import registration
        from treadle.worker.worker_run import WorkerRun

        check_may_begin()
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("this worker is already running: create another Worker([…]) to run two")
        self._loop, ready = asyncio.get_running_loop(), self.ready
        assert isinstance(ready, _Ready)
        try:
            for task in self.config.tasks.values():
                self.config.names.check(task)
                # Errors in a registration are raised here once, rather than on each connection.
                task.registration(self.config.settings)
                if task.schedule is not None:
                    registration(task, self.config.sealer)
            run = WorkerRun(self.config, self._stops, on_open=self._take_id, is_alone=is_alone)
            self._hurry, self._taken = run.hurry, run.taken
            await run.work()
        finally:
            self._loop = self._hurry = None
            ready.fail(sys.exception())
            # New ones for the next run: the old ones are set by now, and belong to this loop.
            self.ready, self._stops = _Ready(), asyncio.Event()
            self.config.names.clear()

    def stop(self) -> None:
        """Drain and end; a second call ends the grace. May be called from any thread."""
        if self._loop is None:
            self._stops.set()
        else:
            # A closed loop means that the worker has just ended.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop_here, self._stops)

    def _stop_here(self, stops: asyncio.Event) -> None:
        if stops.is_set() and self._hurry is not None:
            self._hurry()
        stops.set()

    def _take_id(self, worker_id: str) -> None:
        self.id = worker_id
        self.ready.set()

    async def _run_with_signals(self) -> None:
        with ended_by(self.stop):
            await self._run(is_alone=True)


def _check_keys(tasks: Iterable[Task[..., Any]], sealer: Sealer) -> None:
    for task in tasks:
        if task.encrypted and not sealer.has_codec:
            raise NoCodec(
                f"{task.full_name} is encrypted, but the worker has no keys: pass Worker(codec=…), or set"
                " TREADLE_ENCRYPTION_KEYS"
            )


def _check_texts(given: dict[str, object]) -> None:
    """Raise `ValueError` for texts that no server accepts."""
    for what, value in given.items():
        if value and not (isinstance(value, str) and len(value) <= LONGEST_TEXT and fault(value) is None):
            raise ValueError(
                f"{what} must be a text of up to {LONGEST_TEXT} characters of valid Unicode without NUL,"
                f" not {brief(value)}"
            )


def _check(concurrency: int, min_concurrency: int, prefetch: int | None) -> None:
    numbers = {"concurrency": concurrency, "min_concurrency": min_concurrency, "prefetch": prefetch or 0}
    if wrong := [
        f"{name} must be a whole number, not {brief(value)}"
        for name, value in numbers.items()
        if type(value) is not int
    ]:
        raise ValueError("; ".join(wrong))
    if concurrency < 1:
        raise ValueError(f"concurrency, the weight that runs at once, must be at least 1, not {brief(concurrency)}")
    if not 0 <= min_concurrency <= concurrency:
        raise ValueError(
            f"min_concurrency must be from 0 to the concurrency of {brief(concurrency)}, not {brief(min_concurrency)}"
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError(f"prefetch, the weight claimed ahead, must be 0 or more, not {brief(prefetch)}")
