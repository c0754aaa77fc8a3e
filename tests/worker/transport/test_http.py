"""What answers in a server's place over plain HTTP, and what is said of it."""

import asyncio
import json
import math
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.worker.transport.test_bearer import listening
from treadle import Client, new_task_id, task
from treadle.client.downloads import download
from treadle.client.submit_batcher import SubmitBatcher
from treadle.errors import ConnectionFailed, InvalidArguments, PayloadTooLarge, SocketRefused
from treadle.transport import http
from treadle.transport.bearer import Bearer, Way, bearer_of
from treadle.transport.dialing import dial
from treadle.transport.http import HttpChannel
from treadle.transport.retries import HoldCut
from treadle.transport.session import Session

pytestmark = pytest.mark.anyio


def left(folder: Path) -> list[Path]:
    return list(folder.iterdir())


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


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("400 Bad Request", "answers 400: if it speaks TLS, set TREADLE_URL to https://"),
        ("502 Bad Gateway", "answers 502: it is not ready, or its proxy can't reach it"),
        ("404 Not Found", "answers 404: is a Treadle server there?"),
    ],
)
async def test_what_a_stranger_answers_is_told_with_what_it_mostly_means(status: str, said: str) -> None:
    """Many servers answer 400 to plain HTTP at a port for TLS. The address is the one that was given, by its name."""
    async with listening() as stranger:
        stranger.answer = f"{status}\r\nContent-Length: 0\r\n\r\n"
        url = f"http://localhost:{stranger.port}"

        own = Bearer(own=lambda: "own", own_place="a file")
        channel = HttpChannel((url,), own)
        with pytest.raises(ConnectionFailed) as failed:
            await channel.request("GET", "/v1/stats")
        await channel.close()

        with pytest.raises((SocketRefused, ConnectionFailed)) as refused:
            await dial(Way(url), None)

    assert str(failed.value).startswith(f"GET {url}/v1/stats {said}")
    assert ("if it speaks TLS" in str(refused.value)) == ("if it speaks TLS" in said)


_DEEP = pytest.param("200 OK", '{"items": ' + "[" * 100_000, id="deep")
"""What the standard library's JSON reads no further, with a RecursionError."""


@pytest.mark.parametrize(
    ("status", "body"),
    [*(("200 OK", body) for body in ("", "[]", "null", '"welcome"', "<html>welcome</html>")), _DEEP, ("204 No", "")],
)
async def test_what_a_stranger_says_with_200_is_no_answer(status: str, body: str) -> None:
    async with listening() as stranger:
        stranger.answer = f"{status}\r\nContent-Length: {len(body)}\r\n\r\n{body}"

        async with Client(f"http://127.0.0.1:{stranger.port}", token="any", patience=0) as client:
            with pytest.raises(ConnectionFailed, match="did not answer with a JSON object: is a Treadle server there"):
                await client.jobs()
            with pytest.raises(ConnectionFailed, match="did not answer with a JSON object: is a Treadle server there"):
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
                with pytest.raises(
                    ConnectionFailed, match="answered with JSON that is not a Treadle server's: is one there"
                ):
                    await work


@pytest.mark.parametrize(
    "path", ["nope", "@queue.test/v1", ":1/v1", "https://queue.test/v1", "/v1/st\nats", "/" + "x" * 70_000]
)
async def test_what_is_no_path_at_the_server_is_refused_before_anything_is_sent(path: str) -> None:
    """The second one went to another host, with the token."""
    async with listening() as server, Client(f"http://127.0.0.1:{server.port}", token="any", patience=0) as client:
        with pytest.raises(InvalidArguments, match=r"is not a path of the server|this request can't be made"):
            await client.request("GET", path)
        with pytest.raises(InvalidArguments, match=r"this request can't be made .* too long"):
            await client.list(text="x" * 70_000).page()

    assert not server.heads


@pytest.mark.parametrize("status", ["414 URI Too Long", "431 Request Header Fields Too Large"])
async def test_what_is_too_long_for_a_server_is_told_at_once_and_in_brief(status: str) -> None:
    """It was asked again for the whole patience, and told with all of it."""
    async with listening() as server, Client(f"http://127.0.0.1:{server.port}", token="any") as client:
        server.answer = f"{status}\r\nContent-Length: 0\r\n\r\n"

        with pytest.raises(InvalidArguments, match=rf"/v1/tasks answers {status[:3]}: the path and the parameters are"):
            await client.list(text="x" * 20_000).page()

    assert len(server.heads) == 1


@pytest.mark.parametrize("headers", [{"a": "x\r\nb: y"}, {"a": "é"}, {"a b": "x"}, {"é": "x"}, {"a": 5}, {"": "x"}])
async def test_headers_that_no_request_can_have_are_refused_before_anything_is_sent(headers: dict[str, str]) -> None:
    async with listening() as server, Client(f"http://127.0.0.1:{server.port}", token="any") as client:
        with pytest.raises(InvalidArguments, match="header"):
            await client.request("GET", "/v1/stats", headers=headers)
        with pytest.raises(InvalidArguments, match=r"^'G T' is not a request method"):
            await client.request("G T", "/v1/stats")

    assert not server.heads


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("200 OK\r\nContent-Length: 5\r\n\r\nlogin", r"did not answer with an artifact \(no ETag\)"),
        ("302 Found\r\nLocation: https://login.test/\r\nContent-Length: 0\r\n\r\n", "leads to https://login.test/"),
        ("304 Not Modified\r\n\r\n", "answers 304: is a Treadle server there"),
    ],
)
async def test_what_a_stranger_says_is_not_saved_as_an_artifact(answer: str, said: str, tmp_path: Path) -> None:
    async with listening() as stranger:
        stranger.answer = answer

        async with Client(f"http://127.0.0.1:{stranger.port}", token="any", patience=0) as client:
            with pytest.raises(ConnectionFailed, match=said):
                await download(client.http(), "/v1/tasks/x/artifacts/plot.png", tmp_path / "plot.png")

    assert not left(tmp_path)


async def test_of_a_body_that_a_proxy_does_not_take_it_is_said_that_it_is_too_large() -> None:
    """It was told as a connection that broke: of a batch with one such task nothing was ever handed over."""
    taken: list[int] = []

    def answer(request: httpx.Request) -> httpx.Response:
        numbers = [task["payload"]["n"] for task in json.loads(request.content)["tasks"]]
        if len(request.content) > 1000:
            return httpx.Response(413, html="<title>Request Entity Too Large</title>")
        taken.extend(numbers)
        return httpx.Response(200, json={"tasks": [{"id": str(n)} for n in numbers]})

    channel = HttpChannel(("http://queue.test",), "any", patience=0, transport=httpx.MockTransport(answer))

    async def send(fields: dict[str, Any]) -> Any:
        return await channel.request("POST", "/v1/rooms/lab/tasks", fields)

    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(send, group.create_task)
        items = [{"payload": {"n": n, "s": "x" * (2000 if n == 1 else 0)}} for n in range(3)]
        answers = await asyncio.gather(
            *(batcher.add("lab", item, wait=False) for item in items), return_exceptions=True
        )

    assert isinstance(answers[1], PayloadTooLarge)
    assert "answers 413: a proxy allows less than the server does" in str(answers[1])
    assert taken == [0, 2]
    await channel.close()


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_a_request_that_is_cut_off_while_the_server_holds_it_is_told_as_that(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all of the patience it was asked again for as long, and cut off as before; then a result was not there."""
    monkeypatch.setattr(http, "LEAST_HELD", 0)
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return httpx.Response(status, html="<title>Gateway Time-out</title>")

    channel = HttpChannel(("http://queue.test",), "any", patience=60, transport=httpx.MockTransport(answer))

    with pytest.raises(HoldCut, match=f"answers {status}") as cut:
        await channel.request("GET", "/v1/tasks/a", headers={"Prefer": "wait=60"}, held=60)

    assert len(asked) == 1
    assert cut.value.shorter == 2
    await channel.close()


class Servers:
    """Two servers of one cluster, of which each answers within so many seconds."""

    def __init__(self, **answering: float) -> None:
        self.answering = answering
        self.asked: list[tuple[str, float]] = []
        urls = tuple(f"http://{name}" for name in answering)
        self.channel = HttpChannel(urls, "any", transport=httpx.MockTransport(self.answer))

    def answer(self, request: httpx.Request) -> httpx.Response:
        patience: float = request.extensions["timeout"]["read"]
        self.asked.append((request.url.host, patience))
        if self.answering[request.url.host] > patience:
            raise httpx.ReadTimeout("")
        return httpx.Response(200, json={"by": request.url.host})


async def test_of_several_servers_one_that_stands_still_keeps_nobody_from_the_others_for_long() -> None:
    servers = Servers(frozen=math.inf, well=0)

    assert await servers.channel.request("GET", "/v1/any") == {"by": "well"}
    assert servers.asked[-1] == ("well", http.FIRST_TIMEOUT)
    # It is known by now.
    servers.answering["well"] = 2 * http.FIRST_TIMEOUT
    assert await servers.channel.request("GET", "/v1/any") == {"by": "well"}


async def test_servers_that_are_slow_are_waited_for_as_one_is() -> None:
    servers = Servers(slow=2 * http.FIRST_TIMEOUT, slower=3 * http.FIRST_TIMEOUT)

    answer = await servers.channel.request("GET", "/v1/any")

    assert answer["by"] in {"slow", "slower"}
    assert [patience for _, patience in servers.asked] == [http.FIRST_TIMEOUT] * 2 + [http.TIMEOUT]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
async def test_what_changes_something_is_asked_of_another_server_no_sooner(method: str) -> None:
    servers = Servers(slow=2 * http.FIRST_TIMEOUT, slower=3 * http.FIRST_TIMEOUT)

    await servers.channel.request(method, "/v1/any", {})

    assert [patience for _, patience in servers.asked] == [http.TIMEOUT]
