"""A task with its arguments, and the little that a client needs to know of a task, whatever its kind."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from treadle.client.limit import Limit
from treadle.client.options import Options
from treadle.wire.names import JobName

if TYPE_CHECKING:
    from treadle.settings import Settings

R_co = TypeVar("R_co", covariant=True)


class Readable(Protocol):
    """The return type of a function."""

    def read(self, data: Any) -> Any:
        """Return a result, given as JSON, as a value of this type."""


class Returning(Protocol):
    """The part of a function's signature that is about its result."""

    @property
    def returns(self) -> Readable | None:
        """The type with which the result is read; None if the function has none."""


class Submittable(Protocol):
    """What a client needs to know of a task: its job's name, how it is registered, and what it returns."""

    @property
    def full_name(self) -> str:
        """The job's name, `room:category:name`."""

    @property
    def job(self) -> JobName:
        """The job's name in its parts."""

    @property
    def function(self) -> Callable[..., Any]:
        """The function that it runs."""

    @property
    def signature(self) -> Returning:
        """What the function takes and returns."""

    @property
    def encrypted(self) -> bool:
        """Whether its arguments are encrypted before they are sent."""

    @property
    def limits(self) -> Sequence[Limit]:
        """The limits that it counts against."""

    def registration(self, settings: "Settings", *, replace: bool = False) -> dict[str, Any]:
        """Return the request body that registers the job, a `JobRegister`; `settings` fill in what the task omits.

        With `replace` it replaces a registered schema that differs, instead of raising `SchemaConflict`.
        """


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A task with its arguments: what `Client.submit` and `Client.submit_many` take."""

    task: Submittable
    """The task to submit."""
    payload: dict[str, Any]
    """Its arguments by name, as JSON."""
    options: Options | None = None
    """How it is run; overrides what the task says. None: as the task says."""
    arguments_from: Mapping[str, str] | None = None
    """Arguments that are results of tasks that it waits for; maps each to a name in the options' `depends_on`."""
