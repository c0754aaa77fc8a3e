"""What a task that is submitted from the command line waits for, and which flow it is of."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from treadle.cli.task_options import pair
from treadle.cli.which import TASK_ID, Id, full_flow_id, full_id

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.client.options import Options

UNNAMED = "after"
"""The name under which results come of tasks that were given without one."""

Ids: TypeAlias = str | list[str]
"""One task, whose result comes as it is; or several, whose results come as a list."""

Function: TypeAlias = Callable[..., Any]


def dependencies(function: Function) -> Function:
    """Add which tasks one waits for, which of their results are arguments, and which flow it is of."""
    for flag in (
        click.option("--flow-name", help="Begin a flow with this name."),
        click.option("--flow", type=Id("flow"), help="The flow that it joins, one of your own."),
        click.option("--argument-from", multiple=True, metavar="KEY=ID[,ID]...",
                     help="An argument that takes the result of a task, or with commas a list of results; the new task"
                     " waits for them; may be given again."),
        click.option("--depends-on", multiple=True, metavar="[NAME=]ID[,ID]...",
                     help="A task to wait for, with the name by which the code finds its result, or with commas a list"
                     " of results; may be given again."),
    ):  # fmt: skip
        function = flag(function)
    return function


@dataclass(frozen=True)
class Bonds:
    """What a command says of other tasks."""

    depends_on: Mapping[str, Ids]
    arguments_from: Mapping[str, str]
    flow: str | None

    async def over(self, client: "Client", options: "Options") -> "Options":
        """Return the options with these, by their whole ids. Raises `NotOne` for what begins none, or several."""
        from treadle.client.options import Options

        ids = {name: await _whole(client, said) for name, said in self.depends_on.items()}
        flow = None if self.flow is None else await full_flow_id(client, self.flow)
        return Options(depends_on=ids or None, flow_id=flow).over(options)


def bonds_of(waits_for: Iterable[str], arguments: Iterable[str], flow: str | None) -> Bonds:
    """Return what `--depends-on`, `--argument-from` and `--flow` mean.

    Raises click's `UsageError` for what is no id, and for a name that stands with both.
    """
    named = _gathered(_named(said if "=" in said else f"{UNNAMED}={said}", "NAME=ID") for said in waits_for)
    later = _gathered(_named(said, "KEY=ID") for said in arguments)
    if both := sorted(named.keys() & later.keys()):
        raise click.UsageError(
            f"{both[0]!r} stands in --depends-on and in --argument-from: give it another name in one"
        )
    return Bonds({**named, **later}, {name: name for name in later}, flow)


def _named(said: str, form: str) -> tuple[str, Ids]:
    name, ids = pair(said, form)
    found = [TASK_ID.convert(one, None, None) for one in ids.split(",") if one]
    if not found:
        raise click.UsageError(f"{said!r} is no {form}: the id of a task is missing")
    return name, found if "," in ids else found[0]


def _gathered(pairs: Iterable[tuple[str, Ids]]) -> dict[str, Ids]:
    """Return what was given under each name; what was given again is a list."""
    found: dict[str, Ids] = {}
    for name, ids in pairs:
        found[name] = _list(found[name]) + _list(ids) if name in found else ids
    return found


def _list(ids: Ids) -> list[str]:
    return [ids] if isinstance(ids, str) else ids


async def _whole(client: "Client", said: Ids) -> Ids:
    return await full_id(client, said) if isinstance(said, str) else [await full_id(client, one) for one in said]
