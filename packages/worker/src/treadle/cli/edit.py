"""`treadle edit ID`: changes what a submit gave, while the task waits."""

from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import as_json
from treadle.cli.steer import steer_ids
from treadle.cli.submit import payload_of, value_of
from treadle.cli.task_options import flag_of, named, task_times, task_traits
from treadle.cli.which import TASK_ID
from treadle.wire.options import CLEARED, OPTIONS

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.tasks import TaskItem

_OF_MANY = {name: name for name, option in OPTIONS.items() if option.each is not None}
"""Options whose flags may be repeated; they are cleared as a whole."""

_CLEARED = {"checkpoint": "checkpoint"} | {_OF_MANY.get(name) or flag_of(name): name for name in CLEARED}
"""What can be cleared, with its name on the wire."""


@click.command()
@click.argument("ids", type=TASK_ID, nargs=-1, metavar="ID...", required=True)
@click.option("--payload", help="The new payload as JSON, whole.")
@click.option("--checkpoint", help="The checkpoint that the next run gets, as JSON when it parses as such.")
@task_times
@task_traits
@click.option(
    "--clear",
    multiple=True,
    type=click.Choice(sorted(_CLEARED)),
    help="Take the option's value away; may be given again.",
)
@click.option("--if-version", type=int, help="Only if the task still has this version.")
@as_json
def edit(
    ids: tuple[str, ...], *, payload: str | None, checkpoint: str | None, clear: tuple[str, ...],
    if_version: int | None, is_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Change waiting tasks: scheduled, blocked and pending ones.

    Options that are not given stay as they are. Tags and scopes that are given replace all earlier ones. An ID may be
    shortened to its beginning if that is unique.
    """
    changes = named(given)
    if payload is not None:
        changes["payload"] = payload_of((), payload)
    if checkpoint is not None:
        changes["checkpoint"] = value_of(checkpoint)
    for name in clear:
        if (wire := _CLEARED[name]) in changes:
            raise click.UsageError(f"{name}: give it or --clear it, not both")
        changes[wire] = None
    if not changes:
        raise click.UsageError("nothing to change was given; `treadle edit --help` lists what can be changed")

    async def change(client: "Client", task_id: str) -> "TaskItem":
        return await client.edit(task_id, if_version=if_version, **changes)

    steer_ids(change, ids, is_json=is_json)
