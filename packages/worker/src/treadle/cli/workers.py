"""`treadle workers`: who works and what they run; asked to drain, too."""

from typing import TYPE_CHECKING

import click

from treadle.cli.show import ListedGroup, as_json, ask, at_most, duration, print_page
from treadle.cli.steer import steer_each
from treadle.cli.which import NotOne, is_whole
from treadle.wire.ids import begins
from treadle.wire.status import WorkerState

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.workers import WorkerItem


@click.group(cls=ListedGroup, subcommand_metavar="[COMMAND] [ARGS]...")
def workers() -> None:
    """List workers and what they run, or have some drain.

    Without a COMMAND it lists, and takes the options of `list`.
    """


@workers.command("list")
@click.option("--room", help="Only workers that serve this room's jobs.")
@at_most
@as_json
def show_list(room: str | None, *, limit: int, is_json: bool) -> None:
    """List workers and what they run."""
    page = ask(lambda client: client.workers(room=room, limit=limit))
    columns = ("id", "name", "state", "used", "pool", "jobs", "heartbeat")
    print_page(page, columns, _row, empty="No workers.", is_json=is_json)


@workers.command()
@click.argument("names", nargs=-1, required=True, metavar="WORKER...")
@as_json
def drain(names: tuple[str, ...], *, is_json: bool) -> None:
    """Have workers take no more, end what they run, and end themselves, as SIGTERM does.

    A WORKER is its id, the beginning of one, or its name. What does not end within the worker's grace goes back into
    its queue. What starts the worker again, as a service manager may, starts a new one.
    """

    async def ask_one(client: "Client", given: str) -> "WorkerItem":
        return await client.drain_worker(await _full_id(client, given))

    steer_each(names, ask_one, lambda item: f"{item.name or item.id} is to drain", is_json=is_json)


async def _full_id(client: "Client", given: str) -> str:
    """Return the id of the worker that is called so, or whose id begins so. Raises `NotOne`."""
    if is_whole(given):
        return given
    found = [
        item.id
        async for item in client.workers(limit=500)
        if item.state is not WorkerState.LOST and (item.name == given or begins(item.id, given))
    ]
    if not found:
        raise NotOne(f"no worker that is there is called {given}, and no id begins so")
    if len(found) > 1:
        raise NotOne(f"{given} means more than one worker, such as {found[0]} and {found[1]}: give an id")
    return found[0]


def _row(item: "WorkerItem") -> tuple[object, ...]:
    ahead = item.used - item.concurrency
    # What it has claimed beyond its slots waits there, and uses none.
    used = f"{item.concurrency}/{item.concurrency} +{ahead}" if ahead > 0 else f"{item.used}/{item.concurrency}"
    beat = f"{duration(item.heartbeat_age)} ago"
    return (item.id, item.name, item.state, used, item.pool, item.job_count or len(item.jobs), beat)
