"""`treadle send ID NAME [DATA]`: sends a message to a task that receives it."""

from contextlib import suppress
from typing import TYPE_CHECKING

import click

from treadle.cli.show import as_json, ask, print_json, say, spelt
from treadle.cli.standing import blocking_reason
from treadle.cli.submit import value_of
from treadle.cli.which import TASK_ID, full_id
from treadle.errors import TreadleError

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.steps import MessageItem


@click.command()
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.argument("name")
@click.argument("data", required=False)
@click.option("--id", "key", help="The message's id: sent twice to one task and NAME, it is one message.")
@as_json
def send(task_id: str, *, name: str, data: str | None, key: str | None, is_json: bool) -> None:
    """Send a task a message: `ctx.receive(NAME)` returns DATA.

    DATA is JSON if it parses as such, else text; null without it. ID may be shortened to its beginning if that is
    unique.
    """
    value = None if data is None else value_of(data)

    async def sent(client: "Client") -> "tuple[MessageItem, str]":
        message = await client.send(await full_id(client, task_id), name, value, id=key)
        return message, "" if is_json else await _came_to(client, message)

    message, said = ask(sent)
    if is_json:
        print_json(message)
    else:
        say(f"{message.task_id} {spelt(message.name)} {said}")


async def _came_to(client: "Client", message: "MessageItem") -> str:
    """Return what became of a message; if nothing has asked for it yet, what the task waits for instead."""
    if message.received:
        return "received"
    kept = None
    # The message was sent, whatever the answer to this.
    with suppress(TreadleError):
        kept = await blocking_reason(client, await client.get(message.task_id))
    return f"waits until the task's code receives it{'' if kept is None else f'; the task {kept}'}"
