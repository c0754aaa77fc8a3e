"""What answers in a server's place over plain HTTP, and what is said of it."""

import pytest

from tests.worker.transport.test_bearer import listening
from treadle import Client, new_task_id, task
from treadle.errors import ConnectionFailed, InvalidArguments, SocketRefused
from treadle.transport.bearer import bearer_of
from treadle.transport.session import Session

pytestmark = pytest.mark.anyio


@task
def hello(name: str) -> str:
    return name


@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
async def test_an_address_that_leads_elsewhere_is_told_with_where_to_and_nothing_was_done_there(status: str) -> None:
    """As a proxy does that has each http:// address lead to its https:// one; a submit might have been done."""
    async with listening() as proxy:
        proxy.answer = f"{status}\r\nLocation: https://queue.test/v1\r\nContent-Length: 0\r\n\r\n"
        url = f"http://127.0.0.1:{proxy.port}"
        said = rf"{url} answers {status[:3]} and leads to https://queue\.test/v1: set TREADLE_URL"

        with pytest.raises(SocketRefused, match=said):
            await Session((url,), bearer_of("any"), on_push=lambda _: None)._dial(url)
        async with Client(url, token="any", patience=0) as client:
            with pytest.raises(ConnectionFailed, match=said):
                await client.create_token("someone")


@pytest.mark.parametrize("body", ["", "[]", "null", '"welcome"', "<html>welcome</html>"])
async def test_what_a_stranger_says_with_200_is_no_answer(body: str) -> None:
    async with listening() as stranger:
        stranger.answer = f"200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"

        async with Client(f"http://127.0.0.1:{stranger.port}", token="any", patience=0) as client:
            with pytest.raises(ConnectionFailed, match="answers no JSON object: is a Treadle server there"):
                await client.jobs()
            with pytest.raises(ConnectionFailed, match="answers no JSON object: is a Treadle server there"):
                await client.submit_raw("@global:tasks:hello", {})


@pytest.mark.parametrize("body", ["{}", '{"status": "ok"}'])
async def test_what_another_api_says_with_200_is_no_answer(body: str) -> None:
    """A submit closed the client with a `KeyError`, and what read an answer raised pydantic's error."""
    task_id = new_task_id()
    async with listening() as stranger:
        stranger.answer = f"200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"

        async with Client(f"http://127.0.0.1:{stranger.port}", token="any", patience=0) as client:
            for work in (
                client.submit(hello.bind("Ann")),
                client.submit_many([hello.bind("Ann")], wait=True),
                client.submit_raw("@global:tasks:a b", {}),
                client.get(task_id),
                client.cancel(task_id),
                client.logs(task_id),
                client.handle(task_id).result(30),
                client.expect(task_id).result(30),
                client.list().page(),
                client.flow(task_id),
                client.delete_limit("none"),
                client.ping(),
            ):
                with pytest.raises(ConnectionFailed, match="answers JSON that is no Treadle server's: is one there"):
                    await work


@pytest.mark.parametrize(
    "path", ["nope", "@queue.test/v1", ":1/v1", "https://queue.test/v1", "/v1/st\nats", "/" + "x" * 70_000]
)
async def test_what_is_no_path_at_the_server_is_refused_before_anything_is_sent(path: str) -> None:
    """The second one went to another host, with the token."""
    async with listening() as server, Client(f"http://127.0.0.1:{server.port}", token="any", patience=0) as client:
        with pytest.raises(InvalidArguments, match=r"is no path at the server|no such request can be made"):
            await client.request("GET", path)
        with pytest.raises(InvalidArguments, match=r"no such request can be made .* too long"):
            await client.list(text="x" * 70_000).page()

    assert not server.heads
