"""The registry of functions that run `@internal` jobs, and their broker."""

import inspect
import math
import pkgutil
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import httpx

from treadle.client.options import length_of
from treadle.errors import DefinitionError, DuplicateTask
from treadle.internal.executor import HERE, Executor
from treadle.isolation.processes import origin_of
from treadle.settings import InvalidSetting, Settings
from treadle.tasks.definition import Task
from treadle.tasks.registry import by_name
from treadle.transport.http import HttpChannel
from treadle.values import brief
from treadle.wire.names import INTERNAL
from treadle.worker.config import Lifespan

try:
    from taskiq import AsyncBroker, AsyncTaskiqDecoratedTask, InMemoryBroker, TaskiqEvents, TaskiqState
except ImportError as error:
    raise ImportError(f"tasks of the room @internal need taskiq: pip install 'treadle[internal]' ({error})") from error


class InternalRegistry:
    """Functions that the server's side runs: each is a `@task(room="@internal")`.

    `broker` is a taskiq broker; by default the one that `TREADLE_BROKER=module:broker` names, or else one in memory,
    which runs them in the server's own process. Any other broker takes them to its workers:
    `taskiq worker module:broker`, of a module that creates the registry. There `TREADLE_URL` says where the server is;
    no token is needed.

    The server hands out a weight of `concurrency` at once; more waits in its queue. `lifespan` provides what the
    functions share (`ctx.resources`), once in each process. When a server is stopped, running functions have
    `drain_grace` seconds (or a timedelta) to end; the rest is handed back.

    Raises `DefinitionError` for a task of another room, `DuplicateTask`, `InvalidSetting` when `TREADLE_BROKER` names
    no broker, and `ValueError` for numbers out of range.
    """

    def __init__(
        self,
        tasks: Iterable[Task[..., Any]],
        *,
        broker: AsyncBroker | None = None,
        concurrency: int = 100,
        lifespan: Lifespan | None = None,
        drain_grace: float | timedelta = 5.0,
        settings: Settings | None = None,
    ) -> None:
        if type(concurrency) is not int or concurrency < 1:
            raise ValueError(
                f"concurrency, the weight that is given out at once, must be at least 1, not {brief(concurrency)}"
            )
        self._drain_grace = length_of("drain_grace", drain_grace)
        self._settings = settings or Settings()
        self.tasks = _checked(tasks)
        self.concurrency = concurrency
        self.broker = broker or _broker_of(self._settings)
        self._lifespan = lifespan
        self._app: Any = None
        self._executor: Executor | None = None
        self._messages = {name: self._register(name) for name in self.tasks}
        self.broker.add_event_handler(TaskiqEvents.WORKER_STARTUP, self._start)
        self.broker.add_event_handler(TaskiqEvents.WORKER_SHUTDOWN, self._stop)

    def _register(self, name: str) -> AsyncTaskiqDecoratedTask[Any, Any]:
        if name in self.broker.local_task_registry:
            raise DuplicateTask(f"the broker already runs {name}: create one InternalRegistry for it")

        async def execute(claim: dict[str, Any]) -> None:
            if self._executor is None:
                raise RuntimeError(
                    "the broker has not been started: call its startup(), which starts running the tasks"
                )
            await self._executor.run(claim)

        return self.broker.register_task(execute, task_name=name)

    @property
    def is_local(self) -> bool:
        """Whether the broker is in memory, so that the functions run in the server's process, and end with it."""
        return isinstance(self.broker, InMemoryBroker)

    def jobs(self) -> dict[str, dict[str, Any]]:
        """Return the registration of each job, by its full name."""
        return {name: task.registration(self._settings, replace=True) for name, task in self.tasks.items()}

    async def open(self, app: Any) -> None:
        """Connect to the broker, for the server; functions that run here call its ASGI application `app`."""
        self._app = app
        await self.broker.startup()

    async def dispatch(self, claim: dict[str, Any]) -> None:
        """Send a claim to whatever runs it. Raises what the broker raises."""
        await self._messages[claim["job_name"]].kiq(claim=claim)

    def nudge(self) -> None:
        """Have the functions that run here check at once whether they are to stop."""
        if self._executor is not None:
            self._executor.nudge()

    async def close(self) -> None:
        """Disconnect from the broker; what runs here ends first."""
        await self.broker.shutdown()
        self._app = None

    async def _start(self, state: TaskiqState) -> None:
        """Begin to run claims in this process: the broker's worker, or the server if the broker is in memory."""
        is_here = self._app is not None
        transport = httpx.ASGITransport(self._app) if is_here else None
        urls = (HERE,) if is_here else self._settings.urls
        executor = Executor(
            self.tasks,
            HttpChannel(urls, None, patience=math.inf, transport=transport),
            transport=transport,
            urls=self._settings.urls,
            lifespan=self._lifespan,
            # A broker's worker waits for what is running before it shuts down, so there is nothing left to wait for.
            drain_grace=self._drain_grace if is_here else 0.0,
            is_alone=not is_here,
        )
        await executor.start()
        self._executor = executor

    async def _stop(self, state: TaskiqState) -> None:
        executor, self._executor = self._executor, None
        if executor is not None:
            await executor.stop()


def _checked(tasks: Iterable[Task[..., Any]]) -> dict[str, Task[..., Any]]:
    named = by_name(tasks)
    if not named:
        raise DefinitionError("a registry needs at least one task: InternalRegistry([my_task])")
    for task in named.values():
        if task.job.room != INTERNAL:
            raise DefinitionError(
                f"{task.full_name} is not a job that the server runs: decorate it with @task(room='@internal'), or"
                " give it to a worker"
            )
        if task.isolation == "process":
            origin_of(task)
    return named


def _broker_of(settings: Settings) -> AsyncBroker:
    """Return the broker that the settings name, or one in memory. Raises `InvalidSetting`."""
    named = settings.broker
    if named is None:
        return InMemoryBroker()
    module, _, name = named.partition(":")
    if not (module and name):
        raise InvalidSetting(f"TREADLE_BROKER: {named!r} is not of the form module:broker, such as app.queue:broker")
    try:
        found = pkgutil.resolve_name(named)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidSetting(
            f"TREADLE_BROKER: {named!r} can't be loaded ({error}). A registry beside its broker takes it as an"
            " argument: InternalRegistry(…, broker=broker)"
        ) from error
    if inspect.isfunction(found):
        found = found()
    if not isinstance(found, AsyncBroker):
        raise InvalidSetting(f"TREADLE_BROKER: {named!r} is of type {type(found).__name__}, not a taskiq broker")
    return found
