"""`treadle webhooks list|set|delete|deliveries|redeliver`: where outcomes are sent, and which could not be."""

from typing import TYPE_CHECKING, get_args

import click

from treadle.cli.show import ListedGroup, age, as_json, ask, at_most, print_json, print_page, say
from treadle.cli.which import Id, is_whole, the_one
from treadle.wire.status import Ended

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.webhooks import DeliveryItem, DeliveryState, Redelivered, WebhookItem

_DEAD = "dead delivery"

_room = click.option("--room", default="@global", show_default=True, help="The webhook's room.")


@click.group(cls=ListedGroup, subcommand_metavar="[COMMAND] [ARGS]...")
def webhooks() -> None:
    """Send the outcomes of a room's tasks to a URL, signed as in Standard Webhooks.

    A webhook of @global gets the tasks of every room, and is for superusers. Without a COMMAND it lists, and takes the
    options of `list`.
    """


@webhooks.command("list")
@_room
@at_most
@as_json
def list_(*, room: str, limit: int, is_json: bool) -> None:
    """List a room's webhooks: yours, or everybody's for a superuser."""
    page = ask(lambda client: client.webhooks(room, limit=limit))
    columns = ("name", "url", "jobs", "outcomes", "waiting", "dead", "owner", "state")
    print_page(page, columns, _row, empty=f"No webhooks in {room}.", is_json=is_json)


def _row(item: "WebhookItem") -> tuple[object, ...]:
    jobs = "all" if item.jobs is None else ", ".join(item.jobs)
    state = "on" if item.stands_still is None else f"stands still: {item.stands_still}"
    return (item.name, item.url, jobs, ", ".join(item.statuses), item.waiting, item.dead, item.owner, state)


@webhooks.command("set")
@click.argument("name")
@click.argument("url")
@_room
@click.option("--job", "jobs", multiple=True, help="Only tasks of this job, by its full name; may be given again.")
@click.option(
    "--status",
    "statuses",
    multiple=True,
    type=click.Choice(get_args(Ended)),
    help="Only these outcomes; may be given again.",
)
@click.option("--rotate", is_flag=True, help="Create a new secret.")
@as_json
def set_(
    name: str, url: str, *, room: str, jobs: tuple[str, ...], statuses: tuple[Ended, ...], rotate: bool, is_json: bool
) -> None:
    """Create or change the webhook NAME. A new secret is shown only once.

    Without --job it is sent outcomes of every job, without --status all three outcomes, whatever was set before.
    """
    item = ask(
        lambda client: client.set_webhook(
            name, url, room=room, jobs=jobs or None, statuses=statuses or None, rotate=rotate
        )
    )
    if is_json:
        print_json(item)
    elif item.secret is None:
        say(f"{name} set; its secret is unchanged")
    else:
        say(item.secret)


@webhooks.command()
@click.argument("name")
@_room
@as_json
def delete(name: str, *, room: str, is_json: bool) -> None:
    """Delete a webhook, with the deliveries that are still due."""
    ask(lambda client: client.delete_webhook(name, room=room))
    print_json({"deleted": name}) if is_json else say(f"{name} deleted")


@webhooks.command()
@click.argument("name")
@_room
@click.option("--waiting", is_flag=True, help="List deliveries that are still tried, instead of dead ones.")
@at_most
@as_json
def deliveries(name: str, *, room: str, waiting: bool, limit: int, is_json: bool) -> None:
    """List deliveries that failed too often and are dead, newest first."""
    state: DeliveryState = "waiting" if waiting else "dead"

    page = ask(lambda client: client.deliveries(name, room=room, state=state, limit=limit))
    columns = ("id", "task", "outcome", "ended", "tries", "next", "error")
    print_page(page, columns, _line, empty=f"No {state} deliveries of {name}.", is_json=is_json)


def _line(item: "DeliveryItem") -> tuple[object, ...]:
    return (item.id, item.task_id, item.status, age(item.created_at), item.attempts, age(item.next_at), item.error)


@webhooks.command()
@click.argument("name")
@click.argument("ids", type=Id(_DEAD), nargs=-1, metavar="[ID]...")
@_room
@click.option("--all", "is_all", is_flag=True, help="All dead deliveries.")
@as_json
def redeliver(name: str, ids: tuple[str, ...], *, room: str, is_all: bool, is_json: bool) -> None:
    """Try dead deliveries again, at once: those with these IDs, or with --all all of them.

    An ID may be shortened to its beginning if that is unique.
    """
    if bool(ids) is is_all:
        raise click.UsageError("give either IDs or --all")

    async def again(client: "Client") -> "Redelivered":
        return await client.redeliver(name, await _whole(client, name, room, ids), room=room)

    answer = ask(again)
    many = "1 delivery is" if answer.redelivered == 1 else f"{answer.redelivered} deliveries are"
    print_json(answer) if is_json else say(f"{many} tried again")


async def _whole(client: "Client", name: str, room: str, given: tuple[str, ...]) -> list[str] | None:
    """Return the full ids of those given, which may be beginnings; None if none are given. Raises `NotOne`."""
    if all(map(is_whole, given)):
        return list(given) or None
    dead = [item.id async for item in client.deliveries(name, room=room, limit=500)]
    return [one if is_whole(one) else the_one(one, _DEAD, dead) for one in given]
