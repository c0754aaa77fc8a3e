"""The worker: claims tasks, runs them, and reports how they ended."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from math import inf
from typing import TYPE_CHECKING, Any, Never

from treadle import logs
from treadle.client.names import Names
from treadle.client.options import length_of
from treadle.encryption.sealer import Sealer
from treadle.errors import DefinitionError, LoopTaken, NoCodec, TreadleError, WouldBlock
from treadle.isolation.loading import check_may_begin
from treadle.loops import ended_by, has_loop, loop_factory
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
"""What asyncio and uvloop say of a loop that was stopped from within."""


class Worker:
    """Runs tasks until it is stopped: `Worker([rdf], concurrency=8).run()`.

    - `concurrency`: the most weight of tasks that runs at once.
    - `min_concurrency`: ask for more tasks only when less weight than this runs.
    - `prefetch`: weight to claim beyond the concurrency, which saves a round trip where tasks are short. By default the
      server gives as much ahead as the worker finishes in 0.1 s and one round trip; what has not moved on within one or
      two seconds is handed back.
    - `url`, `token`, `codec` (the keys of encrypted tasks): by default from the environment, as the defaults of tasks.
    - `lifespan`: an async context manager whose value all tasks share as `ctx.resources`.
    - `middleware`: wraps each run, the first one outermost: `async def m(ctx, call_next)`.
    - `drain_grace`: seconds (or a timedelta) that running tasks have to finish when the worker is stopped; the rest is
      handed back.
    - `max_idle`: stop after so many seconds (or a timedelta) connected to a server with nothing to run.
    - `replace_schema`: let a new version of a task replace the registered schema. A version that only widens it, by an
      optional argument for instance, does so without.

    Raises `DuplicateTask` when two tasks share a name; `DefinitionError` for an invalid task, lifespan or middleware,
    and for a task with isolation="process" that a child process can't import; `NoCodec` for an encrypted task without
    keys; `ValueError` for numbers out of bounds; `InvalidSetting` for an invalid URL or key.
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
        self.ready: asyncio.Event = asyncio.Event()
        """Set once the worker is open at the server and takes tasks; another one once it has ended."""
        self.id: str | None = None
        """The worker's id at the server, once it is ready."""
        self._stops = asyncio.Event()
        self._hurry: Callable[[], None] | None = None
        self._taken: Callable[[str], TreadleError] = LoopTaken
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it runs at this moment."""

    def __getstate__(self) -> Never:
        raise TypeError("a worker belongs to the process that it was made in: make one in each")

    def run(self) -> None:
        """Run until SIGTERM, SIGINT, SIGHUP or `stop`, then drain. A second signal ends the grace.

        A second SIGHUP does not, since closing a terminal sends two; under nohup SIGHUP is ignored. Outside of the main
        thread no signal ends the worker, only `stop`. If `TREADLE_LOG_FORMAT` is set and nothing writes the process's
        log yet, the log goes to standard error; JSON needs structlog, and raises `treadle.logs.NoStructlog` without it.

        Raises `WouldBlock` where an event loop runs already: use `await worker.run_async()` there. Raises the
        `ProblemError` of a server that refuses the worker (`Unauthorized`, `Forbidden`, `SchemaConflict` …);
        `DuplicateTask` when another module's task of the same name is in use in this process at that server;
        `DefinitionError` for an annotation that JSON Schema can't describe, for an invalid lifespan, and in a child
        process that imports the program (put the call under `if __name__ == "__main__":`); `InvalidArguments` for a
        schedule whose arguments its task does not take; and `LoopTaken` when a task's code ends the event loop.
        """
        if has_loop():
            raise WouldBlock("an event loop runs in this thread already: use `await worker.run_async()`")
        if "log_format" in self.config.settings.model_fields_set:
            logs.begin(self.config.settings.log_format)
        for sentence in untold():
            log.warning("%s", sentence)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            try:
                runner.run(self._run_with_signals())
            except asyncio.CancelledError:
                # Nobody else has the task that this is: signals are handled.
                from treadle.worker.worker_run import CANCELLED

                raise self._taken(CANCELLED) from None
            except RuntimeError as error:
                if str(error) != _LOOP_STOPPED:
                    raise
                raise self._taken("stopped the loop") from None

    async def run_async(self) -> None:
        """Run in this event loop until `stop` is called; raises as `run`. Cancelling it hands back what runs.

        A worker that has ended may run again, in another loop too; one that runs raises `RuntimeError`, from `run` too,
        and so does one that is awaited where no event loop of asyncio's runs, as under Trio.
        """
        if not has_loop():
            raise RuntimeError(
                "no event loop of asyncio's runs here, which a worker wants: under Trio let it have a thread,"
                " `await anyio.to_thread.run_sync(worker.run)`, and end it by `worker.stop()`"
            )
        await self._run(is_alone=False)

    async def _run(self, *, is_alone: bool) -> None:
        from treadle.tasks.registrations import registration
        from treadle.worker.worker_run import WorkerRun

        check_may_begin()
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("this worker runs already: make another one, Worker([…]), to have two")
        self._loop = asyncio.get_running_loop()
        try:
            for task in self.config.tasks.values():
                self.config.names.check(task)
                # What can't be described is told here, and not to each connection anew.
                task.registration(self.config.settings)
                if task.schedule is not None:
                    registration(task, self.config.sealer)
            run = WorkerRun(self.config, self._stops, on_open=self._opened, is_alone=is_alone)
            self._hurry, self._taken = run.hurry, run.taken
            await run.work()
        finally:
            self._loop = self._hurry = None
            # Others, for the next run: they are set by now, and belong to this loop.
            self.ready, self._stops = asyncio.Event(), asyncio.Event()
            self.config.names.clear()

    def stop(self) -> None:
        """Drain and end; a second call ends the grace. Any thread may call it."""
        if self._loop is None:
            self._stops.set()
        else:
            # A loop that is closed has ended meanwhile.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._stop_here, self._stops)

    def _stop_here(self, stops: asyncio.Event) -> None:
        if stops.is_set() and self._hurry is not None:
            self._hurry()
        stops.set()

    def _opened(self, worker_id: str) -> None:
        self.id = worker_id
        self.ready.set()

    async def _run_with_signals(self) -> None:
        with ended_by(self.stop):
            await self._run(is_alone=True)


def _check_keys(tasks: Iterable[Task[..., Any]], sealer: Sealer) -> None:
    for task in tasks:
        if task.encrypted and not sealer.has_codec:
            raise NoCodec(
                f"{task.full_name} is encrypted, and the worker has no keys: Worker(codec=…), or set"
                " TREADLE_ENCRYPTION_KEYS"
            )


def _check_texts(given: dict[str, object]) -> None:
    """Raise `ValueError` for what no server keeps."""
    for what, value in given.items():
        if value and not (isinstance(value, str) and len(value) <= LONGEST_TEXT and fault(value) is None):
            raise ValueError(
                f"{what} is a text of up to {LONGEST_TEXT} characters of valid Unicode without NUL, not {brief(value)}"
            )


def _check(concurrency: int, min_concurrency: int, prefetch: int | None) -> None:
    numbers = {"concurrency": concurrency, "min_concurrency": min_concurrency, "prefetch": prefetch or 0}
    if wrong := [
        f"{name} is a whole number, not {brief(value)}" for name, value in numbers.items() if type(value) is not int
    ]:
        raise ValueError("; ".join(wrong))
    if concurrency < 1:
        raise ValueError(f"concurrency is the weight that runs at once, at least 1, not {brief(concurrency)}")
    if not 0 <= min_concurrency <= concurrency:
        raise ValueError(
            f"min_concurrency is from 0 to the concurrency of {brief(concurrency)}, not {brief(min_concurrency)}"
        )
    if prefetch is not None and prefetch < 0:
        raise ValueError(f"prefetch is the weight that waits here, 0 or more, not {brief(prefetch)}")
