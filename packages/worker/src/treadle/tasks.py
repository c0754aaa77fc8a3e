"""The `@task` decorator: a function with a job's name, a schema and defaults, that can be submitted."""

import functools
import inspect
import sys
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from treadle.errors import DefinitionError
from treadle.options import Options
from treadle.registry import qualified, remember
from treadle.schedules import Schedule, checked
from treadle.signature import Signature
from treadle.wire.names import GLOBAL, InvalidJobName, JobName, parse_job_name
from treadle.wire.options import OF_JOB, TaskDefaults

if TYPE_CHECKING:
    from treadle.arguments import Call
    from treadle.client import Client
    from treadle.context import Context
    from treadle.handle import TaskHandle
    from treadle.settings import Settings
    from treadle.sync import SyncHandle

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
C = ParamSpec("C")
T_co = TypeVar("T_co", covariant=True)

Isolation = Literal["async", "thread", "process"]


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A task with its arguments: what `Client.submit` and `Client.submit_many` take."""

    task: "Task[..., R_co]"
    payload: dict[str, Any]
    options: Options | None = None


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
    ) -> None:
        self.function = function
        self.job = job
        self.isolation: Isolation = isolation
        self.retain = retain
        self.fair = fair
        self.defaults = defaults
        self.signature = signature
        self.schedule = schedule
        self.full_name: str = str(job)
        self.is_async: bool = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def __repr__(self) -> str:
        return f"<Task {self.full_name}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, here and now."""
        return self.function(*args, **kwargs)

    @property
    def bind(self) -> "Call[P, Bound[R_co]]":
        """Return the task with its arguments, for `Client.submit` and `Client.submit_many`: `task.bind(…)`.

        `options=Options(…)` says how it is run; when the function has a parameter of that name, the keyword is the
        function's and options go through `with_options`. Raises `InvalidArguments`.
        """
        return cast("Call[P, Bound[R_co]]", self._bind)

    @property
    def submit(self) -> "Call[P, Coroutine[Any, Any, TaskHandle[R_co]]]":
        """Submit the task through the `current_client` and return its handle: `await task.submit(…)`.

        `options` are as in `bind`. Raises `InvalidArguments`, `NoClient` when no client is open, `ConnectionFailed`,
        and a `ProblemError` when the server refuses.
        """
        return cast("Call[P, Coroutine[Any, Any, TaskHandle[R_co]]]", self._submit)

    @property
    def submit_sync(self) -> "Call[P, SyncHandle[R_co]]":
        """Do as `submit`, and block until the server has the task: for threads, and code without an event loop.

        The client may be a `SyncClient`, or a `Client` that is open in another thread. Raises as `submit`, and
        `WouldBlock` in the thread of the client's own event loop.
        """
        return cast("Call[P, SyncHandle[R_co]]", self._submit_sync)

    def _bind(self, *args: Any, **kwargs: Any) -> Bound[R_co]:
        options = None
        if "options" in kwargs and "options" not in self.signature.names:
            options = _as_options(kwargs.pop("options"))
        return Bound(self, self.signature.payload(args, kwargs), options)

    async def _submit(self, *args: Any, **kwargs: Any) -> "TaskHandle[R_co]":
        return await _client().submit(self._bind(*args, **kwargs))

    def _submit_sync(self, *args: Any, **kwargs: Any) -> "SyncHandle[R_co]":
        return _submit_sync(self._bind(*args, **kwargs))

    def with_options(self, options: Options) -> "Configured[P, R_co]":
        """Return the task with options for its next submits; later options go over earlier ones."""
        return Configured(self, options)

    def registration(self, settings: "Settings", *, replace: bool = False) -> dict[str, Any]:
        """Return the body that registers the job: names, schema and defaults, settings under the decorator's."""
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
        if (origin := qualified(self)) is not None:
            body["origin"] = origin
        return body | self.defaults.wire()


class TaskFunction(Task[P, R_co], Generic[P, R_co, C, T_co]):
    """A task as its decorator returns it: `C` and `T_co` are what the function itself takes and returns."""

    if TYPE_CHECKING:

        def __call__(self, *args: C.args, **kwargs: C.kwargs) -> T_co:
            """Call the function itself, here and now."""


@dataclass(frozen=True, slots=True)
class Configured(Generic[P, R_co]):
    """A task with options; its arguments keep their names, whatever they are."""

    task: Task[P, R_co]
    options: Options = field(default_factory=Options)

    def with_options(self, options: Options) -> "Configured[P, R_co]":
        """Return the task with `options` over those it has."""
        return Configured(self.task, options.over(self.options))

    def bind(self, *args: P.args, **kwargs: P.kwargs) -> Bound[R_co]:
        """Return the task with its arguments and these options; raise `InvalidArguments`."""
        return Bound(self.task, self.task.signature.payload(args, kwargs), self.options)

    async def submit(self, *args: P.args, **kwargs: P.kwargs) -> "TaskHandle[R_co]":
        """Submit as `Task.submit` does."""
        return await _client().submit(self.bind(*args, **kwargs))

    def submit_sync(self, *args: P.args, **kwargs: P.kwargs) -> "SyncHandle[R_co]":
        """Submit as `Task.submit_sync` does."""
        return _submit_sync(self.bind(*args, **kwargs))


class Decorator(Protocol):
    """What `@task(…)` returns: it makes a `Task` of a function and keeps its parameter and result types."""

    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]", /
    ) -> "TaskFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]": ...
    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], R]", /
    ) -> "TaskFunction[P, R, Concatenate[Context, P], R]": ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...


@overload
def task(
    function: "Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]", /
) -> "TaskFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]": ...
@overload
def task(function: "Callable[Concatenate[Context, P], R]", /) -> "TaskFunction[P, R, Concatenate[Context, P], R]": ...
@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
@overload
def task(function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...
@overload
def task(
    positional_name: str | None = None,
    /,
    *,
    name: str | None = None,
    category: str = "tasks",
    room: str = GLOBAL,
    isolation: Isolation | None = None,
    retain: bool = True,
    fair: Literal["room"] | None = None,
    schedule: Schedule | None = None,
    **defaults: Unpack[TaskDefaults],
) -> Decorator: ...
def task(
    function: Callable[..., Any] | str | None = None,
    /,
    *,
    name: str | None = None,
    category: str = "tasks",
    room: str = GLOBAL,
    isolation: Isolation | None = None,
    retain: bool = True,
    fair: Literal["room"] | None = None,
    schedule: Schedule | None = None,
    **defaults: Unpack[TaskDefaults],
) -> Any:
    """Make a function a task: `@task`, `@task("name")` or `@task(category="analysis", timeout=30)`.

    The job is `{room}:{category}:{name}`, its name the function's unless given, first or as `name=`. A first parameter
    annotated `Context` is injected and no argument. `isolation` says where it runs: `async` functions in the worker's
    loop, others in a `thread`; `process` gives it a child process that a timeout or cancel really kills. `retain` keeps
    the job, and what is queued, while no worker lives. `fair="room"` lets rooms take turns. `schedule=Cron(…)` or
    `Every(…)` puts it in again and again, from the start of the first worker that has it. The other keywords are the
    defaults of `Options`.

    Raises `DefinitionError` when the function can't be a task, and `DuplicateTask` when its module has one of that
    name already.
    """
    if isinstance(function, str):
        if name is not None:
            raise DefinitionError(f"@task({function!r}, name={name!r}) has two names: give one")
        function, name = None, function
    frame = sys._getframe(1)  # noqa: SLF001 - the scope that local annotations are looked up in

    def decorate(inner: Callable[..., Any]) -> Task[..., Any]:
        job = _job_name(room, category, name, inner)
        made: Task[..., Any] = Task(
            inner,
            job=job,
            isolation=_isolation(inner, isolation),
            retain=retain,
            fair=fair,
            defaults=_defaults(inner, defaults),
            signature=Signature(inner, _locals(inner, frame)),
            schedule=checked(inner.__qualname__, schedule),
        )
        remember(made.full_name, inner, frame)
        return made

    if function is None:
        return decorate
    return decorate(function)


def _client() -> "Client":
    from treadle.current import current_client

    return current_client()


def _submit_sync(bound: Bound[R]) -> "SyncHandle[R]":
    from treadle.sync import SyncHandle, block

    client = _client()
    return SyncHandle(block(client, client.submit(bound)))


def _as_options(value: object) -> Options:
    if isinstance(value, Options):
        return value
    raise TypeError(f"options must be Options(…), not {value!r}")


def _job_name(room: str, category: str, given: str | None, function: Callable[..., Any]) -> JobName:
    if isinstance(function, Task):
        raise DefinitionError(f"{function!r} is a task already: decorate it once")
    if not callable(function) or inspect.isclass(function) or not hasattr(function, "__qualname__"):
        hint = "" if callable(function) else ": @task takes the task's name first, and all else by keyword"
        raise DefinitionError(f"@task decorates functions, not {function!r}{hint}")
    name = function.__name__ if given is None else given
    try:
        job = parse_job_name(f"{room}:{category}:{name}")
    except InvalidJobName as error:
        raise DefinitionError(f"{function.__qualname__} can't be a task: {error}") from None
    if job != (room, category, name):
        raise DefinitionError(f"{function.__qualname__} can't be a task: room and category may hold no ':'")
    return job


def _isolation(function: Callable[..., Any], wanted: Isolation | None) -> Isolation:
    is_async = inspect.iscoroutinefunction(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{function.__qualname__} is a generator: a task returns one result; return a list")
    if wanted is None:
        return "async" if is_async else "thread"
    if wanted not in {"async", "thread", "process"}:
        raise DefinitionError(f"isolation={wanted!r} of {function.__qualname__} must be 'async', 'thread' or 'process'")
    if wanted == "async" and not is_async:
        raise DefinitionError(f"{function.__qualname__} is no async function: use isolation='thread' or 'process'")
    if wanted == "thread" and is_async:
        raise DefinitionError(f"{function.__qualname__} is async: use isolation='async' or 'process'")
    return wanted


def _defaults(function: Callable[..., Any], defaults: Mapping[str, Any]) -> Options:
    unknown = defaults.keys() - OF_JOB.keys()
    if unknown:
        known = ", ".join(sorted(OF_JOB))
        raise DefinitionError(
            f"@task of {function.__qualname__} doesn't know {', '.join(sorted(unknown))}; it takes {known}"
        )
    try:
        return Options.model_validate(dict(defaults))
    except ValueError as error:
        raise DefinitionError(f"@task of {function.__qualname__}: {error}") from None


def _locals(function: Callable[..., Any], frame: FrameType) -> Mapping[str, Any] | None:
    # Only a function inside another one needs its scope; a module's own names are looked up late.
    return dict(frame.f_locals) if "<locals>" in function.__qualname__ else None
