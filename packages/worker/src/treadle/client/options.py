"""Options of a submit: when, how urgently and how often a task is run."""

from collections.abc import Mapping
from datetime import timedelta
from math import isnan
from typing import TYPE_CHECKING, Any, Unpack, overload
from uuid import UUID

from pydantic import ValidationError, field_validator

from treadle.client.limit import Limit
from treadle.errors import InvalidArguments
from treadle.values import brief
from treadle.wire.edits import Timed
from treadle.wire.fields import Text
from treadle.wire.flows import DependsOn
from treadle.wire.ids import Uuid
from treadle.wire.options import GivenOptions, TaskEdits
from treadle.wire.reasons import reason

_OF_ONE_TASK = frozenset({"id", "depends_on", "flow_id", "delay", "scheduled_at", "deadline", "on_dependency_failure"})

_DUE: Mapping[str, None] = {"delay": None, "scheduled_at": None}
"""The options that say when a task is due; a task has one of them."""


@overload
def seconds(value: float | timedelta | None) -> float | None: ...
@overload
def seconds(value: Any) -> Any: ...
def seconds(value: Any) -> Any:
    """Return a timedelta in seconds, as it is sent; any other value is returned unchanged."""
    return value.total_seconds() if isinstance(value, timedelta) else value


class Options(Timed):
    """How one task is run. What is left out is taken from the job, then from the server; an explicit 0 is kept.

    Durations are seconds or timedeltas, instants are aware datetimes. Raises `InvalidArguments`, which names the option
    and the value.
    """

    id: Uuid | None = None
    """The task's id, a UUID: submitting the same id with the same content again is the same task."""
    depends_on: DependsOn | None = None
    """The tasks that it waits for, by the names under which their results are passed: an id each, or a list of ids."""
    flow_id: Uuid | None = None
    """The flow that it belongs to: a new one, or the submitter's own."""
    flow_name: Text | None = None
    """The name of a new flow; for a schedule, of the flow that each of its tasks begins."""

    if TYPE_CHECKING:

        def __init__(self, **values: Unpack[GivenOptions]) -> None: ...

    else:

        def __init__(self, **values: Any) -> None:
            try:
                super().__init__(**values)
            except ValidationError as error:
                raise InvalidArguments(_explain(error, values)) from None

    @field_validator("*", mode="before")
    @classmethod
    def _plain(cls, value: Any) -> Any:
        return seconds(_id(value))

    @field_validator("depends_on", mode="before")
    @classmethod
    def _ids(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {
            name: [_id(one) for one in said] if isinstance(said, list) else _id(said) for name, said in value.items()
        }

    @field_validator("limits", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not all(isinstance(one, Limit | dict) for one in value):
            raise ValueError("write a list of Limit(…)")
        return [one.named() if isinstance(one, Limit) else one for one in value]

    def wire(self) -> dict[str, Any]:
        """Return the options that were given, as JSON."""
        return self.model_dump(mode="json", exclude_unset=True, exclude_none=True)

    def over(self, base: "Options | None") -> "Options":
        """Return these options over those of `base`. A task is due once, so `delay` also overrides `scheduled_at`."""
        if base is None:
            return self
        given = {name: getattr(self, name) for name in self.model_fields_set}
        is_timed = any(given.get(name) is not None for name in _DUE)
        return base.model_copy(update={**(_DUE if is_timed else {}), **given})


def _id(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value


def as_options(value: object) -> Options:
    """Return the value if it is `Options`. Raises `InvalidArguments` for anything else, such as a dict."""
    if isinstance(value, Options):
        return value
    raise InvalidArguments(f"options must be Options(…), not {brief(value)}")


def duration(value: object) -> float | None:
    """Return a number or a timedelta in seconds; None for anything else, including NaN."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    try:
        length = float(value)
    except OverflowError:
        return None
    return None if isnan(length) else length


def length_of(name: str, given: object, *, may_be_zero: bool = True) -> float:
    """Return a duration in seconds. Raises `ValueError`, which names it, for an invalid one."""
    length = duration(given)
    if length is None or length < 0 or (length == 0 and not may_be_zero):
        least = "0 or more" if may_be_zero else "more than 0"
        raise ValueError(f"{name} must be seconds or a timedelta, {least}, not {brief(given)}")
    return length


def wire_edits(changes: "TaskEdits") -> dict[str, Any]:
    """Return the changes as they are sent: durations in seconds."""
    return {name: seconds(value) for name, value in changes.items()}


def template(options: Options | None, deadline: float | timedelta | None) -> dict[str, Any]:
    """Return the options of a schedule's tasks, as they are sent.

    Raises `InvalidArguments` for an option that only a single task can have, and for a deadline that is not after the
    tick.
    """
    said = {} if options is None else as_options(options).wire()
    if unfit := sorted(said.keys() & _OF_ONE_TASK):
        raise InvalidArguments(
            f"{', '.join(unfit)}: not possible for a schedule, whose tasks come with its ticks; give their deadline"
            " beside the options, in seconds from the tick"
        )
    if deadline is None:
        return said
    if (after := duration(deadline)) is None or after <= 0:
        raise InvalidArguments(f"deadline={brief(deadline)}: a schedule's deadline must be a duration of more than 0")
    return {**said, "deadline": after}


def _explain(error: ValidationError, given: Mapping[str, Any]) -> str:
    """Return what is wrong, with the values as they were given, since pydantic's messages show converted ones."""
    places = []
    for detail in error.errors(include_url=False):
        name = ".".join(map(str, detail["loc"]))
        if detail["type"] == "extra_forbidden":
            places.append(f"unknown option {name}; there are {', '.join(sorted(Options.model_fields))}")
        elif name:
            places.append(f"{name}: {reason(detail)}, not {brief(given.get(name, detail['input']))}")
        else:
            places.append(reason(detail))
    return "; ".join(places)
