"""The options of a task as flags of `treadle submit`, `edit` and `schedules set`, from `treadle.wire.options`."""

import json
from collections.abc import Callable, Iterable, Iterator
from math import isfinite, nan
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import click

from treadle.cli.numbers import Number
from treadle.filters.ranges import seconds_of
from treadle.values import brief
from treadle.wire.fields import TEN_YEARS, Instant
from treadle.wire.options import OPTIONS, Option, TaskOptions, TaskTimes, TaskTraits
from treadle.wire.reasons import reason
from treadle.wire.values import TOO_DEEP, Fault, fault

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

    from treadle.client.options import Options

Function = Callable[..., None]
Decorate = Callable[[Function], Function]


class _Time(click.DateTime):
    """A time with its zone."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(
                f"{value!r} is not a time with a zone: write it as 2026-01-31T12:00:00+01:00, or with Z", param, ctx
            )


TIME = _Time(["%Y-%m-%dT%H:%M:%S%z"])
"""The type of a flag that takes a time."""

if TYPE_CHECKING:
    _Seconds = click.ParamType[float]
else:
    _Seconds = click.ParamType  # generic only in newer releases than the oldest that is allowed


class Duration(Number):
    """A duration within bounds, in seconds: given as a number, or as in filters, such as 90s or 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; fail for an invalid duration, and out of bounds."""
        seconds = seconds_of(str(value))
        try:
            seconds = float(value) if seconds is None else seconds
        except ValueError:
            seconds = nan
        if not isfinite(seconds):
            self.fail(f"{value!r} is not a duration: write 90s, 45m, 1h30m or 2d, or a number of seconds", param, ctx)
        return super().convert(seconds, param, ctx)


class Age(_Seconds):
    """A duration of up to ten years, in seconds, given with its unit, because a bare 30 might be meant as days."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Return the seconds; fail for an invalid duration, and for more than ten years."""
        seconds = seconds_of(str(value))
        if seconds is None or seconds > TEN_YEARS:
            self.fail(f"{value!r} is not a duration of up to ten years: write 90s, 45m, 12h, 30d or 2w", param, ctx)
        return seconds


def flag_of(name: str) -> str:
    """Return the name of an option's flag, without the dashes."""
    told = OPTIONS.get(name)
    return told.flag if told is not None and told.flag else name.replace("_", "-")


def task_traits(function: Function) -> Function:
    """Add the options that a task has however it is submitted."""
    return _with([*_flags(TaskOptions), *_flags(TaskTraits)], function)


def task_times(function: Function) -> Function:
    """Add the options for when a task is due and its deadline."""
    return _with(_flags(TaskTimes), function)


def _with(flags: list[Decorate], function: Function) -> Function:
    for flag in reversed(flags):
        function = flag(function)
    return function


def _flags(model: "type[BaseModel]") -> list[Decorate]:
    """Return a flag for each option that the model itself adds to those that it inherits."""
    return [_flag(name, OPTIONS[name], model.model_fields[name]) for name in model.__annotations__]


def _flag(name: str, option: Option, field: "FieldInfo") -> Decorate:
    flag = f"--{flag_of(name)}"
    if option.each is not None:
        many = _sentence(f"{option.each}; may be given again")
        return click.option(flag, name, multiple=True, metavar=option.form, help=many)
    return click.option(flag, name, type=_type(*_parts(field.annotation)), help=_sentence(option.help))


def _parts(annotation: Any) -> tuple[type, list[Any]]:
    """Return the bare type, without None, and its bounds."""
    said: list[Any] = []
    while True:
        if NoneType in get_args(annotation):
            annotation = next(one for one in get_args(annotation) if one is not NoneType)
        elif hasattr(annotation, "__metadata__"):
            said += _bounds(annotation.__metadata__)
            annotation = annotation.__origin__
        else:
            return annotation, said


def _bounds(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for one in metadata:
        yield from getattr(one, "metadata", (one,))


def _type(kind: Any, bounds: list[Any]) -> "click.ParamType[Any]":
    """Return click's type: for numbers it only checks the lower bound, the rest is checked with the whole task.

    A number of at most ten years is a duration.
    """
    if get_origin(kind) is Literal:
        return click.Choice(get_args(kind))
    if kind is Instant:
        return TIME
    if kind not in {int, float}:
        return click.STRING
    least = next((one.ge for one in bounds if hasattr(one, "ge")), None)
    above = next((one.gt for one in bounds if hasattr(one, "gt")), None)
    if least is not None and least < 0:
        return click.INT if kind is int else click.FLOAT
    if any(getattr(one, "le", None) == TEN_YEARS for one in bounds):
        ranged: type[click.IntRange | Number] = Duration
    else:
        ranged = click.IntRange if kind is int else Number
    return ranged(least if above is None else above, min_open=above is not None)


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def named(given: dict[str, Any]) -> dict[str, Any]:
    """Return the given options by their names on the wire. Raises click's `UsageError`."""
    if given.get("delay") is not None and given.get("scheduled_at") is not None:
        raise click.UsageError("give either --delay or --at, not both")
    found = dict(given)
    found["tags"] = each_once(map(_tag, found["tags"]), "--tag") or None
    found["scopes"] = list(found["scopes"]) or None
    found["limits"] = list(map(_limit, found["limits"])) or None
    return {name: value for name, value in found.items() if value is not None}


def options_of(given: dict[str, Any]) -> "Options":
    """Return the given options. Raises click's `UsageError` for an invalid value."""
    from pydantic import ValidationError

    from treadle.client.options import Options

    try:
        return Options.model_validate(named(given))
    except ValidationError as error:
        raise click.UsageError(_by_flag(reason(error.errors(include_url=False)[0]))) from None


def _by_flag(said: str) -> str:
    """Return an error message about an option, with its flag in place of its name."""
    place, colon, why = said.partition(":")
    name, dot, below = place.partition(".")
    if not colon or name not in {"id", "flow_name", *OPTIONS}:
        return said
    return f"--{flag_of(name)}{f' {below}' if dot else ''}:{why}"


def _limit(argument: str) -> dict[str, Any]:
    name, _, key = argument.partition("=")
    return {"name": name, **({"key": key} if key else {})}


def _tag(argument: str) -> tuple[str, Any]:
    name, value = pair(argument, "KEY=VALUE")
    if not name.endswith(":") or len(name) == 1:
        return name, value
    try:
        return name[:-1], parsed(value)
    except ValueError as error:
        raise click.UsageError(f"--tag {name}=: {value[:60]!r} is not valid JSON: {error}") from None


def parsed(text: str) -> Any:
    """Parse a text as JSON. Raises `ValueError` if it is not.

    Raises click's `UsageError` for values that no server accepts, however deep this Python could parse, and for an
    object with a repeated name.
    """
    try:
        value = json.loads(text, object_pairs_hook=lambda pairs: each_once(pairs, "the name"))
        found = fault(value)
    except RecursionError:
        found = Fault("", TOO_DEEP)
    if found is not None:
        raise click.UsageError(f"{brief(text)}: {found}")
    return value


def each_once(pairs: Iterable[tuple[str, Any]], what: str) -> dict[str, Any]:
    """Return the pairs as a dict. Raises click's `UsageError` for a name given twice, as a value would be lost."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise click.UsageError(f"{what} {name!r} is given twice: give one value, or a list of them as JSON")
        found[name] = value
    return found


def pair(argument: str, form: str) -> tuple[str, str]:
    """Return the texts before and after the first `=`. Raises click's `UsageError`."""
    name, separator, value = argument.partition("=")
    if not separator or not name:
        raise click.UsageError(f"{argument!r} is not of the form {form}")
    return name, value
