"""What a task is like, as options of `treadle submit`, `edit` and `schedules set`: each declared once."""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from treadle.options import Options

Function = Callable[..., None]

_INSTANT = click.DateTime(["%Y-%m-%dT%H:%M:%S%z"])

_TRAITS = (
    click.option("--priority", type=int, help="Higher goes first."),
    click.option("--run-timeout", type=click.FloatRange(0, min_open=True), help="Seconds that a run may take."),
    click.option("--max-retries", type=click.IntRange(0), help="How often it is tried again."),
    click.option("--max-requeues", type=click.IntRange(0), help="How often it is put back after a lost worker."),
    click.option("--retry-base", type=click.FloatRange(0), help="Seconds before the first retry."),
    click.option("--retry-multiplier", type=click.FloatRange(1), help="By how much each delay is longer."),
    click.option("--retry-randomization", type=click.FloatRange(0), help="A share more, at random, at most."),
    click.option("--lease-seconds", type=click.FloatRange(0, min_open=True), help="How long a claim lasts."),
    click.option("--heartbeat-increment", type=click.FloatRange(0), help="Seconds that a heartbeat extends it to."),
    click.option("--start-timeout", type=click.FloatRange(0, min_open=True), help="Seconds to start what is claimed."),
    click.option("--on-failure", type=click.Choice(["hold", "release"]), help="What a failed one does to its target."),
    click.option("--target", help="The named resource that it has for itself."),
    click.option("--weight", type=click.IntRange(1), help="How much of a worker's concurrency it takes."),
    click.option("--budget", type=click.FloatRange(0), help="How much it may use, in its own unit."),
    click.option("--pool", help="The pool of workers that may run it."),
    click.option(
        "--tag",
        "tags",
        multiple=True,
        metavar="KEY=VALUE",
        help="A tag, KEY:=JSON for one that is no text; may be given again.",
    ),
    click.option("--scope", "scopes", multiple=True, help="A scope that its runs have; may be given again."),
    click.option("--unique-key", help="Of the open tasks of a job one may hold the key."),
)

_TIMES = (
    click.option("--delay", type=click.FloatRange(0), help="Seconds until it is due."),
    click.option("--at", "scheduled_at", type=_INSTANT, help="When it is due, with a zone."),
    click.option("--deadline", type=_INSTANT, help="Past it the task fails."),
)


def task_traits(function: Function) -> Function:
    """Add the options that a task has whenever it is put in."""
    return _with(_TRAITS, function)


def task_times(function: Function) -> Function:
    """Add when a task is due, and until when it is of use."""
    return _with(_TIMES, function)


def _with(options: "tuple[Callable[[Function], Function], ...]", function: Function) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def named(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by the names that they have on the wire. Raises click's `UsageError`."""
    found = dict(given)
    found["timeout"] = found.pop("run_timeout")
    found["tags"] = dict(map(_tag, found["tags"])) or None
    found["scopes"] = list(found["scopes"]) or None
    return {name: value for name, value in found.items() if value is not None}


def options_of(given: dict[str, Any]) -> "Options":
    """Return the options that were given. Raises click's `UsageError` for a value that is none."""
    from pydantic import ValidationError

    from treadle.options import Options

    try:
        return Options.model_validate(named(given))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise click.UsageError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None


def _tag(argument: str) -> tuple[str, Any]:
    name, value = pair(argument, "KEY=VALUE")
    if not name.endswith(":") or len(name) == 1:
        return name, value
    try:
        return name[:-1], json.loads(value)
    except ValueError as error:
        raise click.UsageError(f"--tag {name}=: {value[:60]!r} is no JSON: {error}") from None


def pair(argument: str, form: str) -> tuple[str, str]:
    """Return what stands before and behind the first `=`. Raises click's `UsageError`."""
    name, separator, value = argument.partition("=")
    if not separator or not name:
        raise click.UsageError(f"{argument!r} is no {form}")
    return name, value


__all__ = ["named", "options_of", "pair", "task_times", "task_traits"]
