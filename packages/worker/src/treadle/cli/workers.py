"""`treadle workers`: lists workers and what they run, and asks them to drain."""

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
    """Have workers claim no more, finish what they run, and exit, as SIGTERM does.

    A WORKER is its id, the beginning of its id, or its name. Tasks that do not end within the worker's grace go back to
    their queues. If something, such as a service manager, restarts the worker, it starts as a new one.
    """

    async def ask_one(client: "Client", given: str) -> "WorkerItem":
        return await client.drain_worker(await _full_id(client, given))

    steer_each(names, ask_one, lambda item: f"{item.name or item.id} was asked to drain", is_json=is_json)


async def _full_id(client: "Client", given: str) -> str:
    """Return the id of the worker with this name, or whose id begins with it. Raises `NotOne`."""
    if is_whole(given):
        return given
    found = [
        item.id
        async for item in client.workers(limit=500)
        if item.state is not WorkerState.LOST and (item.name == given or begins(item.id, given))
    ]
    if not found:
        raise NotOne(f"no worker has the name {given} or an id that begins with it")
    if len(found) > 1:
        raise NotOne(f"{given} matches more than one worker, such as {found[0]} and {found[1]}: give an id")
    return found[0]


def _row(item: "WorkerItem") -> tuple[object, ...]:
    ahead = item.used - item.concurrency
    # Claims beyond its slots wait in the worker, and use none.
    used = f"{item.concurrency}/{item.concurrency} +{ahead}" if ahead > 0 else f"{item.used}/{item.concurrency}"
    beat = f"{duration(item.heartbeat_age)} ago"
    return (item.id, item.name, item.state, used, item.pool, item.job_count or len(item.jobs), beat)
