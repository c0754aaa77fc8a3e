"""Answers with the fields that are documented and something else in them: each is told, and ends no client."""

import json
from collections.abc import Awaitable

import pytest

from tests.worker.fakes import fake_server
from tests.worker.transport.test_bearer import listening
from treadle import Client, task
from treadle.errors import ConnectionLost
from treadle.ids import new_task_id
from treadle.wire.operations import OPERATIONS
from treadle.wire.pages import Page

pytestmark = pytest.mark.anyio

NAMES = {
    field.alias or name
    for operation in OPERATIONS.values()
    for model in (Page, operation.answer)
    if model is not None
    for name, field in model.model_fields.items()
    if field.is_required() or name in {"tasks", "result"}
}
"""Every field that an answer has to have."""


@task
def hello(name: str) -> str:
    return name


def asked(client: Client) -> list[Awaitable[object]]:
    """Return what a client asks over the socket, where there is one."""
    task_id = new_task_id()
    return [
        client.submit(hello.bind("Ann")),
        client.submit_many([hello.bind("Ann")], wait=True),
        client.submit_raw("@global:tasks:hello", {}),
        client.get(task_id),
        client.cancel(task_id),
        client.act("cancel", ids=[task_id]),
        client.edit(task_id, priority=1),
        client.send(task_id, "go"),
        client.runs(task_id),
        client.logs(task_id),
        client.pause_queue("@global:tasks:hello"),
        client.register(hello),
    ]


@pytest.mark.parametrize("held", [None, 7, [7], "\x1b[2J"])
async def test_an_answer_that_holds_something_else_is_told_over_plain_http(held: object) -> None:
    """It was pydantic's error, or a `TypeError`; of a wait it was the end of the client."""
    body = json.dumps(dict.fromkeys(NAMES, held))
    task_id = new_task_id()
    async with listening() as stranger:
        stranger.answer = f"200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        async with Client(f"http://127.0.0.1:{stranger.port}", token="any", patience=0) as client:
            for work in (
                *asked(client),
                client.handle(task_id).result(30),
                client.list().page(),
                client.failures(),
                client.flow(task_id),
                client.job("@global:tasks:hello"),
                client.limit("none"),
                client.schedule("none"),
                client.stats(),
                client.whoami(),
                client.worker("none"),
                client.prune(dry_run=True),
            ):
                with pytest.raises(ConnectionLost, match=r"the server's answer can't be read .* compatible"):
                    await work


async def test_an_answer_that_holds_something_else_is_told_over_the_socket() -> None:
    """It may lack what it is to have, too, or be no object."""
    for answer in (7, [], {}, dict.fromkeys(NAMES, 7)):
        async with (
            fake_server(lambda _, answer=answer: answer) as server,  # type: ignore[misc]
            Client(server.url, token="any", patience=0) as client,
        ):
            for work in asked(client):
                with pytest.raises(ConnectionLost, match=r"the server's answer can't be read .* compatible"):
                    await work
