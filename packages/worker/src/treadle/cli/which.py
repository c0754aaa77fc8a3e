"""Which tasks a command means: ids, the beginnings of ids, or a filter."""

import re
from collections.abc import Callable
from inspect import cleandoc
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.filters import TaskFilter

_FILTER = """
A FILTER is words with spaces between, all of which must hold: status:failed (several with commas; open, done and all
are groups), job:@global:tasks:hello, room:lab, target:robot, worker:NAME (or id), tag:key or tag:key=value (in a nested
one tag.region.name:eu; several), id:0199 (how it begins), flow:ID, error:ValueError (or the reason), failure:ID (a
group of failures), tries:>2, created:<1h, started:>5m, ended:2026-01-31 (or a time behind < or >), duration:>1m30s.
A - before status:, job:, room:, target:, worker:, tag: and error: means what is not so, behind -- on the command line
or as --where=-tag:x. Anything else is text to be found in the id, the job's name, the payload or the error.
Quotes keep spaces.
"""

_ID = re.compile(r"([0-9a-fA-F]-?){1,32}")


class NotOneTask(click.ClickException):
    """What was given as an id names no task, or several."""


def explaining_filters(function: Callable[..., None]) -> Callable[..., None]:
    """Add to a command's help what a FILTER is."""
    function.__doc__ = f"{cleandoc(function.__doc__ or '')}\n{_FILTER}"
    return function


def filter_of(text: str) -> "TaskFilter":
    """Return the filter that is meant. Raises click's `UsageError`."""
    from treadle.filters import FilterError, parse

    try:
        return parse(text)
    except FilterError as error:
        raise click.UsageError(str(error)) from None


async def full_id(client: "Client", given: str) -> str:
    """Return the id that `given` is, or is the beginning of. Raises `NotOneTask`."""
    if not _ID.fullmatch(given):
        raise NotOneTask(f"{given!r} is no task's id: that is a UUID, or its beginning")
    if len(given) == 36:
        return given
    found = (await client.list(id=given, limit=2)).items
    if not found:
        raise NotOneTask(f"no task's id begins with {given}")
    if len(found) > 1:
        such = " and ".join(item.id for item in found)
        raise NotOneTask(f"several tasks' ids begin with {given}, such as {such}: give more of it")
    return found[0].id
