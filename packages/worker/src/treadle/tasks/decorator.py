"""The `@task` decorator, which turns a function into a job that can be submitted, with a name, schema and defaults."""

import inspect
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import cache, partial
from types import FrameType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Concatenate,
    Literal,
    Protocol,
    TypeAlias,
    Unpack,
    get_args,
    overload,
)

from pydantic import Field, TypeAdapter, ValidationError

from treadle.client.limit import Limit
from treadle.client.options import Options
from treadle.errors import DefinitionError
from treadle.tasks.definition import Isolation, P, R, Task, TaskFunction
from treadle.tasks.registry import remember
from treadle.tasks.schedules import Schedule, checked
from treadle.tasks.signature import Signature, signature_of
from treadle.tasks.verdicts import Exceptions, Verdicts
from treadle.values import first_wrong
from treadle.wire.limits import MOST_NAMED, LimitOfJob
from treadle.wire.names import GLOBAL, INTERNAL, InvalidJobName, JobName, parse_job_name
from treadle.wire.options import OF_JOB, OPTIONS, TaskDefaults

if TYPE_CHECKING:
    from treadle.tasks.context import Context


class _Whatever:
    """A private type: only a function whose first parameter accepts anything accepts it as well as a `Context`."""


_NoFunction: TypeAlias = partial[Any] | type[Any]
"""What can be called but is no function, so that `task` raises: type checkers refuse any use of the result."""


# The overloads are written twice, for `@task` and for `@task(…)`, because type checkers offer no way to share them. Of
# an async function behind another decorator a type checker often knows only that it returns an awaitable. If the first
# parameter accepts anything, as without annotations, it can't tell whether that is a context; then nothing is said of
# the task's parameters, rather than that it has one less.


class Decorator(Protocol):
    """The result of `@task(…)`: it makes a `Task` of a function, keeping its parameter and result types."""

    @overload
    def __call__(self, function: _NoFunction, /) -> None: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Whatever, P], Coroutine[Any, Any, R]], /
    ) -> TaskFunction[..., R, ..., Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[_Whatever, P], Awaitable[R]], /
    ) -> TaskFunction[..., R, ..., Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[_Whatever, P], R], /) -> TaskFunction[..., R, ..., R]: ...
    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]", /
    ) -> "TaskFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]": ...
    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], Awaitable[R]]", /
    ) -> "TaskFunction[P, R, Concatenate[Context, P], Awaitable[R]]": ...
    @overload
    def __call__(
        self, function: "Callable[Concatenate[Context, P], R]", /
    ) -> "TaskFunction[P, R, Concatenate[Context, P], R]": ...
    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> TaskFunction[P, R, P, Awaitable[R]]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> TaskFunction[P, R, P, R]: ...


@overload
def task(function: _NoFunction, /) -> None: ...  # type: ignore[overload-overlap]
@overload
def task(
    function: Callable[Concatenate[_Whatever, P], Coroutine[Any, Any, R]], /
) -> TaskFunction[..., R, ..., Coroutine[Any, Any, R]]: ...
@overload
def task(function: Callable[Concatenate[_Whatever, P], Awaitable[R]], /) -> TaskFunction[..., R, ..., Awaitable[R]]: ...
@overload
def task(function: Callable[Concatenate[_Whatever, P], R], /) -> TaskFunction[..., R, ..., R]: ...
@overload
def task(
    function: "Callable[Concatenate[Context, P], Coroutine[Any, Any, R]]", /
) -> "TaskFunction[P, R, Concatenate[Context, P], Coroutine[Any, Any, R]]": ...
@overload
def task(
    function: "Callable[Concatenate[Context, P], Awaitable[R]]", /
) -> "TaskFunction[P, R, Concatenate[Context, P], Awaitable[R]]": ...
@overload
def task(function: "Callable[Concatenate[Context, P], R]", /) -> "TaskFunction[P, R, Concatenate[Context, P], R]": ...
@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> TaskFunction[P, R, P, Coroutine[Any, Any, R]]: ...
@overload
def task(function: Callable[P, Awaitable[R]], /) -> TaskFunction[P, R, P, Awaitable[R]]: ...
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
    retry_on: Exceptions | None = None,
    fail_on: Exceptions | None = None,
    encrypted: bool = False,
    limits: Sequence[Limit] = (),
    **defaults: Unpack[TaskDefaults],
) -> Decorator: ...
# Stands twice: an overload has to repeat the parameters that the function has.
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
    retry_on: Exceptions | None = None,
    fail_on: Exceptions | None = None,
    encrypted: bool = False,
    limits: Sequence[Limit] = (),
    **defaults: Unpack[TaskDefaults],
) -> Any:
    """Make a function a task: `@task`, `@task("name")` or `@task(category="analysis", timeout=30)`.

    - `name`, `category`, `room`: the job is `{room}:{category}:{name}`; its name is by default the function's.
    - `isolation`: where the code runs. `async` functions run in the worker's event loop, others in a `thread`;
      `process` is a child process, which a timeout or a cancel really kills.
    - `retain`: keep the job and its queue while no worker is alive.
    - `fair="room"`: let rooms take turns.
    - `schedule`: `Cron(…)` or `Every(…)` submits the task again and again, once a worker that has it was started.
    - `retry_on`, `fail_on`: exception classes: if `retry_on` is given, only those are retried; those in `fail_on` never
      are. By default every exception is retried.
    - `encrypted`: the server can't read arguments and results; clients and workers have the keys.
    - `limits`: at most four `Limit(…)`, which apply across all workers. A limit that does not exist is created; an
      existing one is left as it is.

    The other keywords are defaults for `Options`. A first parameter annotated as `Context` receives the run, and is not
    an argument.

    Raises `DefinitionError` when the function can't be a task, and `DuplicateTask` when its module already has a task
    of that name.
    """
    if isinstance(function, str):
        if name is not None:
            raise DefinitionError(f"@task({function!r}, name={name!r}) has two names: give one")
        function, name = None, function
    frame = sys._getframe(1)  # noqa: SLF001 - the scope in which local annotations are looked up

    def decorate(inner: Callable[..., Any]) -> Task[..., Any]:
        job = _job_name(room, category, name, inner)
        made: Task[..., Any] = Task(
            inner,
            job=job,
            isolation=_isolation(inner, isolation),
            retain=retain,
            fair=_fair(inner, fair),
            defaults=_defaults(inner, defaults),
            signature=Signature(inner, _locals(inner, frame)),
            schedule=checked(inner.__qualname__, schedule),
            verdicts=Verdicts.of(inner.__qualname__, retry_on, fail_on),
            encrypted=_encrypted(inner, room, encrypted=encrypted),
            limits=_limits(inner, limits),
        )
        remember(made.full_name, inner, frame)
        return made

    if function is None:
        return decorate
    return decorate(function)


def _job_name(room: str, category: str, given: str | None, function: Callable[..., Any]) -> JobName:
    if isinstance(function, Task):
        raise DefinitionError(f"{function!r} already is a task: decorate it once")
    if not callable(function) or inspect.isclass(function) or not hasattr(function, "__qualname__"):
        hint = "" if callable(function) else ": @task takes the task's name first, and everything else by keyword"
        raise DefinitionError(f"@task decorates functions, not {function!r}{hint}")
    if "." in function.__qualname__.rpartition("<locals>.")[2] and _first_parameter(function) in {"self", "cls"}:
        raise DefinitionError(
            f"{function.__qualname__} is a method, and a worker has no {_first_parameter(function)} for it: make it a"
            " function at its module's top level"
        )
    name = function.__name__ if given is None else given
    try:
        job = parse_job_name(f"{room}:{category}:{name}")
    except InvalidJobName as error:
        raise DefinitionError(f"{function.__qualname__} can't be a task: {error}") from None
    if job != (room, category, name):
        raise DefinitionError(
            f"{function.__qualname__} can't be a task: room, category and name must be strings, and the first two may"
            f" contain no ':', not {room!r}, {category!r} and {name!r}"
        )
    return job


def _first_parameter(function: Callable[..., Any]) -> str | None:
    return next(iter(signature_of(function).parameters), None)


def _isolation(function: Callable[..., Any], wanted: Isolation | None) -> Isolation:
    is_async = inspect.iscoroutinefunction(function)
    if inspect.isasyncgenfunction(function) or inspect.isgeneratorfunction(function):
        raise DefinitionError(f"{function.__qualname__} is a generator, but a task returns one result: return a list")
    if wanted is None:
        return "async" if is_async else "thread"
    if wanted not in get_args(Isolation):
        raise DefinitionError(f"isolation={wanted!r} of {function.__qualname__} must be 'async', 'thread' or 'process'")
    if wanted == "async" and not is_async:
        raise DefinitionError(f"{function.__qualname__} is not an async function: use isolation='thread' or 'process'")
    if wanted == "thread" and is_async:
        raise DefinitionError(f"{function.__qualname__} is async: use isolation='async' or 'process'")
    return wanted


def _fair(function: Callable[..., Any], fair: Literal["room"] | None) -> Literal["room"] | None:
    if fair not in {None, "room"}:
        raise DefinitionError(f"fair={fair!r} of {function.__qualname__} must be 'room', or left out")
    return fair


def _encrypted(function: Callable[..., Any], room: str, *, encrypted: bool) -> bool:
    if encrypted and room == INTERNAL:
        raise DefinitionError(
            f"{function.__qualname__} can't be encrypted: the server itself runs tasks in {INTERNAL}, and it must not"
            " have the keys"
        )
    return encrypted


def _limits(function: Callable[..., Any], limits: object) -> Sequence[Limit]:
    """Return a decorator's limits after validating them. Raises `DefinitionError`."""
    where = f"@task of {function.__qualname__}"
    if not isinstance(limits, list | tuple) or not all(isinstance(one, Limit) for one in limits):
        raise DefinitionError(f"{where}: limits={limits!r} is not a list of Limit(…)")
    if not limits:
        return limits
    try:
        _list_of_limits().validate_python([one.of_job() for one in limits])
    except ValidationError as error:
        raise DefinitionError(f"{where}: limits: {first_wrong(error)}") from None
    return limits


@cache
def _list_of_limits() -> TypeAdapter[list[LimitOfJob]]:
    """Return the validator of limits, made once: making it takes half a millisecond, nearly all that `@task` took."""
    return TypeAdapter(Annotated[list[LimitOfJob], Field(max_length=MOST_NAMED)])


def _defaults(function: Callable[..., Any], defaults: Mapping[str, Any]) -> Options:
    where = f"@task of {function.__qualname__}"
    if unknown := sorted(defaults.keys() - OF_JOB.keys()):
        _, *own, _ = inspect.signature(task).parameters
        hint = ", ".join(f"{name}=…" for name in unknown if name in OPTIONS)
        raise DefinitionError(
            f"{where} doesn't know {', '.join(unknown)}; it takes {', '.join(sorted((*own, *OF_JOB)))}"
            + (f"; set it for a single task when you submit it: Options({hint})" if hint else "")
        )
    try:
        return Options.model_validate(dict(defaults))
    except ValidationError as error:
        raise DefinitionError(f"{where}: {first_wrong(error)}") from None


def _locals(function: Callable[..., Any], frame: FrameType) -> Mapping[str, Any] | None:
    # Only a function inside another one needs its scope; names of the module are looked up later.
    return dict(frame.f_locals) if "<locals>" in function.__qualname__ else None
