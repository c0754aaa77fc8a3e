"""`treadle send ID NAME [DATA]`: a message for a task that receives it."""

from typing import TYPE_CHECKING

import click

from treadle.cli.show import as_json, ask, print_json, say, spelt
from treadle.cli.submit import value_of
from treadle.cli.which import TASK_ID, full_id

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.steps import MessageItem


@click.command()
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.argument("name")
@click.argument("data", required=False)
@click.option("--id", "key", help="The same id twice, for one task and NAME, is one message.")
@as_json
def send(task_id: str, *, name: str, data: str | None, key: str | None, is_json: bool) -> None:
    """Send a task a message: `ctx.receive(NAME)` returns DATA.

    DATA is JSON when it parses as such, else text; null without it. ID may be the beginning of one, when it is one
    task's alone.
    """
    value = None if data is None else value_of(data)

    async def sent(client: "Client") -> "MessageItem":
        return await client.send(await full_id(client, task_id), name, value, id=key)

    message = ask(sent)
    if is_json:
        print_json(message)
    else:
        say(f"{message.task_id} {spelt(message.name)} {'received' if message.received else 'waits'}")
