"""A task with its arguments, and what a client has to know of a task: no more, so that it works for every kind."""

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
    """What a function returns."""

    def read(self, data: Any) -> Any:
        """Return a result, JSON, as what the function says that it returns."""


class Returning(Protocol):
    """A function's signature, as far as its result goes."""

    @property
    def returns(self) -> Readable | None:
        """What the result is read with; None where it has no type."""


class Submittable(Protocol):
    """What a client has to know of a task: its job's name, how it is registered, and what it returns."""

    @property
    def full_name(self) -> str:
        """The job, `room:category:name`."""

    @property
    def job(self) -> JobName:
        """The job's name in its parts."""

    @property
    def function(self) -> Callable[..., Any]:
        """What it runs."""

    @property
    def signature(self) -> Returning:
        """What it takes and gives."""

    @property
    def encrypted(self) -> bool:
        """Whether its arguments are encrypted before they are sent."""

    @property
    def limits(self) -> Sequence[Limit]:
        """What it counts against."""

    def registration(self, settings: "Settings", *, replace: bool = False) -> dict[str, Any]:
        """Return the body that registers the job, as `JobRegister`; what the task leaves open is the settings'.

        With `replace` another schema than the registered one takes its place, instead of being a `SchemaConflict`.
        """


@dataclass(frozen=True, slots=True)
class Bound(Generic[R_co]):
    """A task with its arguments: what `Client.submit` and `Client.submit_many` take."""

    task: Submittable
    """What is submitted."""
    payload: dict[str, Any]
    """Its arguments by name, in JSON."""
    options: Options | None = None
    """How it is run, over what the task says; None: as the task says."""
    arguments_from: Mapping[str, str] | None = None
    """Arguments that are results of tasks that it waits for, each by its name in the options' `depends_on`."""
