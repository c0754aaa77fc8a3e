"""The tasks that a submit on the command line waits for, and its flow."""

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
"""The name under which the results of tasks are passed that were given without a name."""

Ids: TypeAlias = str | list[str]
"""One task, whose result is passed as it is; or several, whose results are passed as a list."""

Function: TypeAlias = Callable[..., Any]


def dependencies(function: Function) -> Function:
    """Add the options for the tasks to wait for, the results that are arguments, and the flow."""
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
    """The relations to other tasks that a command line gives."""

    depends_on: Mapping[str, Ids]
    arguments_from: Mapping[str, str]
    flow: str | None

    async def over(self, client: "Client", options: "Options") -> "Options":
        """Return the options with these added, by full ids. Raises `NotOne` for a beginning of no id, or of several."""
        from treadle.client.options import Options

        ids = {name: await _whole(client, said) for name, said in self.depends_on.items()}
        flow = None if self.flow is None else await full_flow_id(client, self.flow)
        return Options(depends_on=ids or None, flow_id=flow).over(options)


def bonds_of(waits_for: Iterable[str], arguments: Iterable[str], flow: str | None) -> Bonds:
    """Return the meaning of `--depends-on`, `--argument-from` and `--flow`.

    Raises click's `UsageError` for anything but an id, and for a name that is given in both.
    """
    named = _gathered(_named(said if "=" in said else f"{UNNAMED}={said}", "NAME=ID") for said in waits_for)
    later = _gathered(_named(said, "KEY=ID") for said in arguments)
    if both := sorted(named.keys() & later.keys()):
        raise click.UsageError(
            f"{both[0]!r} is given in both --depends-on and --argument-from: use another name in one of them"
        )
    return Bonds({**named, **later}, {name: name for name in later}, flow)


def _named(said: str, form: str) -> tuple[str, Ids]:
    name, ids = pair(said, form)
    found = [TASK_ID.convert(one, None, None) for one in ids.split(",") if one]
    if not found:
        raise click.UsageError(f"{said!r} is not of the form {form}: the id of a task is missing")
    return name, found if "," in ids else found[0]


def _gathered(pairs: Iterable[tuple[str, Ids]]) -> dict[str, Ids]:
    """Return what was given under each name; several values become a list."""
    found: dict[str, Ids] = {}
    for name, ids in pairs:
        found[name] = _list(found[name]) + _list(ids) if name in found else ids
    return found


def _list(ids: Ids) -> list[str]:
    return [ids] if isinstance(ids, str) else ids


async def _whole(client: "Client", said: Ids) -> Ids:
    return await full_id(client, said) if isinstance(said, str) else [await full_id(client, one) for one in said]
