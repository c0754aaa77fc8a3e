"""A task: a function with its job's name, schema and defaults, that can be submitted."""

import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
)

from treadle.client.bound import Bound
from treadle.client.limit import Limit
from treadle.client.names import qualified
from treadle.client.options import Options, as_options
from treadle.tasks.schedules import Schedule
from treadle.tasks.signature import Signature
from treadle.tasks.verdicts import Verdicts
from treadle.wire.names import JobName
from treadle.wire.options import OF_JOB

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.client.handle import TaskHandle
    from treadle.client.sync import SyncHandle
    from treadle.settings import Settings
    from treadle.tasks.arguments import Call

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = ParamSpec("C")
T_co = TypeVar("T_co", covariant=True)

Isolation = Literal["async", "thread", "process"]


def _shown_as(typed: property, method: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method with the name and docstring of the property that type checkers see in its place."""
    seen = cast("Callable[..., Any]", typed.fget)
    method.__name__, method.__qualname__, method.__doc__ = seen.__name__, seen.__qualname__, seen.__doc__
    return method


class Task(Generic[P, R_co]):
    """A function that is a job: made by `@task`, called like the function, submitted with `submit`."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        job: JobName,
        isolation: Isolation,
        retain: bool,
        fair: Literal["room"] | None,
        defaults: Options,
        signature: Signature,
        schedule: Schedule | None = None,
        verdicts: Verdicts | None = None,
        encrypted: bool = False,
        limits: Sequence[Limit] = (),
    ) -> None:
        self.function = function
        self.job = job
        self.isolation: Isolation = isolation
        self.retain = retain
        self.fair = fair
        self.defaults = defaults
        self.signature = signature
        self.schedule = schedule
        self.verdicts = verdicts
        self.encrypted = encrypted
        self.limits = tuple(limits)
        self.full_name: str = str(job)
        self.is_async: bool = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Task {self.full_name}>"

    def __reduce__(self) -> str:
        """Pickle the task by name, as functions are, for `multiprocessing` and process pools."""
        name: str = self.function.__qualname__
        return name

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, here and now."""
        return self.function(*args, **kwargs)

    @property
    def bind(self) -> "Call[P, Bound[R_co]]":
        """Return the task with its arguments, for `Client.submit` and `Client.submit_many`: `task.bind(…)`.

        `options=Options(…)` says how to run it. If the function has a parameter called `options`, the keyword is that
        parameter, and `with_options` sets the options. Raises `InvalidArguments`.
        """
        return cast("Call[P, Bound[R_co]]", self._bind)

    @property
    def submit(self) -> "Call[P, Coroutine[Any, Any, TaskHandle[R_co]]]":
        """Submit the task through the `current_client` and return its handle: `await task.submit(…)`.

        `options` works as in `bind`. Raises `InvalidArguments`, `NoClient` when no client is open, `ConnectionFailed`,
        and a `ProblemError` when the server refuses.
        """
        return cast("Call[P, Coroutine[Any, Any, TaskHandle[R_co]]]", self._submit)

    @property
    def submit_sync(self) -> "Call[P, SyncHandle[R_co]]":
        """Submit like `submit`, but block until the server has the task: for threads, and code without an event loop.

        The client may be a `SyncClient`, or a `Client` that is open in another thread. Raises as `submit` does, and
        `WouldBlock` in the thread of the client's own event loop.
        """
        return cast("Call[P, SyncHandle[R_co]]", self._submit_sync)

    def _bind(self, /, *args: Any, **kwargs: Any) -> Bound[R_co]:
        options = None
        if "options" in kwargs and "options" not in self.signature.names:
            options = as_options(kwargs.pop("options"))
        return Bound(self, self.signature.payload(args, kwargs), options)

    async def _submit(self, /, *args: Any, **kwargs: Any) -> "TaskHandle[R_co]":
        return await _client().submit(self._bind(*args, **kwargs))

    def _submit_sync(self, /, *args: Any, **kwargs: Any) -> "SyncHandle[R_co]":
        return _submit_sync(self._bind(*args, **kwargs))

    if not TYPE_CHECKING:
        # At runtime they are methods rather than properties, so that tests can replace them on a task.
        bind, submit, submit_sync = map(_shown_as, (bind, submit, submit_sync), (_bind, _submit, _submit_sync))

    def with_options(self, options: Options) -> "Configured[P, R_co]":
        """Return the task with options for its next submits; later options override earlier ones.

        Raises `InvalidArguments` for invalid options.
        """
        return Configured(self, as_options(options))

    def registration(self, settings: "Settings", *, replace: bool = False) -> dict[str, Any]:
        """Return the request body that registers the job; the decorator's defaults override those of `settings`."""
        body: dict[str, Any] = {
            "category": self.job.category,
            "name": self.job.name,
            "schema": self.signature.schema,
            "retain": self.retain,
            "replace": replace,
        }
        for name in OF_JOB:
            if (value := getattr(settings, name, None)) is not None:
                body[name] = value
        if self.fair is not None:
            body["fair"] = self.fair
        if self.encrypted:
            body["encrypted"] = True
        if self.limits:
            body["limits"] = [limit.of_job() for limit in self.limits]
        if (origin := qualified(self)) is not None:
            body["origin"] = origin
        return body | self.defaults.wire()


class TaskFunction(Task[P, R_co], Generic[P, R_co, C, T_co]):
    """A task as its decorator returns it: `C` and `T_co` are the parameters and result of the function itself."""

    if TYPE_CHECKING:

        def __call__(self, /, *args: C.args, **kwargs: C.kwargs) -> T_co:
            """Call the function itself, here and now."""


@dataclass(frozen=True, slots=True)
class Configured(Generic[P, R_co]):
    """A task with options; every keyword is an argument of the function, even `options`."""

    task: Task[P, R_co]
    options: Options

    def with_options(self, options: Options) -> "Configured[P, R_co]":
        """Return the task with `options` over its present ones. Raises `InvalidArguments` for invalid options."""
        return Configured(self.task, as_options(options).over(self.options))

    def bind(self, /, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """Return the task with its arguments and these options. Raises `InvalidArguments`."""
        return Bound(self.task, self.task.signature.payload(args, kwargs), self.options)

    async def submit(self, /, *args: P.args, **kwargs: P.kwargs) -> "TaskHandle[R_co]":
        """Submit as `Task.submit` does."""
        return await _client().submit(self.bind(*args, **kwargs))

    def submit_sync(self, /, *args: P.args, **kwargs: P.kwargs) -> "SyncHandle[R_co]":
        """Submit as `Task.submit_sync` does."""
        return _submit_sync(self.bind(*args, **kwargs))


def _client() -> "Client":
    from treadle.client.current import current_client

    return current_client()


def _submit_sync(bound: Bound[R]) -> "SyncHandle[R]":
    from treadle.client.blocking import block
    from treadle.client.sync import SyncHandle

    client = _client()
    return SyncHandle(block(client, client.submit(bound)))
