"""The tasks that a command is about: given by ids, beginnings of ids, or a filter."""

import re
from collections.abc import Callable, Iterable
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import click

from treadle.wire.ids import begins
from treadle.wire.reasons import ID_BEGINNING

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.filters import TaskFilter

_FILTER = """
A FILTER is words separated by spaces, all of which must match: status:failed (several with commas; open, done and all
are groups), job:@global:tasks:hello, room:lab, target:robot, worker:NAME (or id), tag:key or tag:key=value (in a nested
one tag.region.name:eu; several), id:0199 (how it begins), flow:0199, error:ValueError (or the reason), failure:ID (a
group of failures), tries:>2, created:<1h, started:>5m, ended:2026-01-31 (or a time behind < or >), duration:>1m30s.
A - before status:, job:, room:, target:, worker:, tag: and error: means what is not so, as in {example}.
Anything else is text to be found in the id, the job's name, the payload or the error. Quotes keep spaces.
"""

_ID = re.compile(ID_BEGINNING)

LENGTH = 36
"""The number of characters of an id as it is printed."""


class NotOne(click.ClickException):
    """What was given as an id matches nothing, or more than one."""


def explaining_filters(
    function: Callable[..., None], *, example: str = "treadle tasks -- -tag:x"
) -> Callable[..., None]:
    """Add to a command's help what a FILTER is; `example` is one that begins with a -, as the command takes it."""
    function.__doc__ = f"{cleandoc(function.__doc__ or '')}\n{_FILTER.format(example=example)}"
    return function


def filter_of(text: str) -> "TaskFilter":
    """Return the filter that is given. Raises click's `UsageError`."""
    from treadle.filters import FilterError, parse

    try:
        return parse(text)
    except FilterError as error:
        raise click.UsageError(str(error)) from None


class Id(click.types.StringParamType):
    """An id or its beginning; anything else is refused when the command line is parsed, before anything is done."""

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text; raises click's `UsageError`."""
        if not is_beginning(value):
            raise click.UsageError(f"{value!r} is not a {self._what}'s id: give a UUID, or the beginning of one", ctx)
        return str(value)


TASK_ID = Id("task")
"""The type of an argument that names a task."""


async def full_id(client: "Client", given: str) -> str:
    """Return the id of the task that `given` is, or begins. Raises `NotOne`."""
    if is_whole(given):
        return given
    return the_one(given, "task", [item.id for item in (await client.list(id=given, limit=2)).items])


async def full_flow_id(client: "Client", given: str) -> str:
    """Return the id of the flow that `given` is, or begins. Raises `NotOne`."""
    if is_whole(given):
        return given
    return the_one(given, "flow", [item.id for item in (await client.flows(id=given, limit=2)).items])


def is_whole(given: str) -> bool:
    """Return whether this is a whole id rather than its beginning."""
    return len(given) == LENGTH


def the_one(given: str, what: str, ids: Iterable[str]) -> str:
    """Return the only one of the ids that begins with `given`. Raises `NotOne`."""
    found = [one for one in ids if begins(one, given)]
    if not found:
        raise NotOne(f"no {what}'s id begins with {given}")
    if len(found) > 1:
        raise NotOne(
            f"more than one {what}'s id begins with {given}, such as {found[0]} and {found[1]}: give more characters"
        )
    return found[0]


def is_beginning(text: str) -> bool:
    """Return whether an id may begin like this."""
    return _ID.fullmatch(text) is not None
