"""The session socket: gathering, reconnecting, refusals, and who is told what."""

import asyncio
import traceback
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
from pydantic_core import from_json, to_json
from websockets.asyncio.server import ServerConnection, serve

from tests.worker.conftest import settings_in
from tests.worker.fakes import HELLO, FakeServer, echo, fake_server, session_to
from treadle import Client, new_task_id, task
from treadle.errors import (
    ConnectionFailed,
    ConnectionLost,
    InvalidArguments,
    JobNotFound,
    PayloadTooLarge,
    SocketRefused,
    Unauthorized,
    problem_named,
)
from treadle.transport.dialing import MAX_FRAME
from treadle.transport.session import Session

pytestmark = pytest.mark.anyio


async def something_came(fake: FakeServer) -> None:
    """Wait until the server has a request, whose answer it may keep to itself."""
    async with asyncio.timeout(20):
        while not fake.items:
            await fake.connected.wait()
            fake.connected.clear()


async def test_requests_of_one_loop_turn_go_in_one_frame() -> None:
    async with fake_server(echo) as fake, session_to(fake) as session:
        await session.call("first")
        fake.frames.clear()

        answers = await asyncio.gather(*(session.call("many", {"number": number}) for number in range(50)))

    assert [answer["echo"]["number"] for answer in answers] == list(range(50))
    assert [len(frame) for frame in fake.frames] == [50]
    assert fake.tokens == ["Bearer secret"]


async def test_a_request_whose_answer_was_lost_is_sent_again_with_the_same_content() -> None:
    """T8, G6: the client chose the id, so a lost answer doubles nothing."""
    silent = True

    def answer(item: dict[str, Any]) -> Any:
        if silent and item["op"] == "submit_each":
            return None
        return {"tasks": [{"id": task["id"]} for task in item["tasks"]]}

    @task
    async def job(n: int) -> None: ...

    async with fake_server(answer) as fake, Client(fake.url, "t") as client:
        submitting = asyncio.ensure_future(client.submit(job.bind(1)))
        await something_came(fake)
        silent = False
        await fake.connections[0].close(1012)
        handle = await submitting

    first, second = fake.items
    assert first["tasks"] == second["tasks"]
    assert handle.id == first["tasks"][0]["id"]


async def test_a_request_that_may_not_be_repeated_fails_when_its_answer_was_lost() -> None:
    async with fake_server(lambda _: None) as fake, session_to(fake) as session:
        asking = asyncio.ensure_future(session.call("action", resend=False))
        await something_came(fake)
        await fake.connections[0].close(1001)

        with pytest.raises(ConnectionLost, match="check whether it was done"):
            await asking


async def test_what_was_sent_when_the_session_was_given_up_may_have_been_done() -> None:
    async with fake_server(lambda _: None) as fake, session_to(fake) as session:
        asking = asyncio.ensure_future(session.call("action", resend=False))
        await something_came(fake)
        await session.close()

        with pytest.raises(ConnectionLost, match="check whether it was done"):
            await asking
        with pytest.raises(ConnectionFailed, match="the session was closed"):
            await session.call("action", resend=False)


async def test_a_bound_request_never_goes_to_the_next_connection() -> None:
    async with fake_server(echo) as fake:
        session = Session((fake.url,), None, on_push=lambda _: None)

        with pytest.raises(ConnectionFailed, match="at the moment"):
            await session.call("reports", bound=True)


async def test_another_server_is_tried_when_one_does_not_answer() -> None:
    async with fake_server(echo) as fake:
        session = Session(("http://127.0.0.1:1", fake.url), None, on_push=lambda _: None)
        async with asyncio.TaskGroup() as group:
            group.create_task(session.run())
            assert (await session.call("ping"))["echo"]["op"] == "ping"
            await session.close()


async def test_no_server_is_said_at_once_with_what_to_do() -> None:
    async with Client("http://127.0.0.1:1", "t") as client:
        with pytest.raises(ConnectionFailed, match=r"127\.0\.0\.1:1 .*treadle server"):
            await client.ping()


async def test_of_several_servers_each_one_that_does_not_answer_is_told(tmp_path: Path) -> None:
    """Only one of them was, as if the others had not been tried."""
    dead = [f"http://127.0.0.1:{port}" for port in (1, 2)]
    async with Client(",".join(dead), "t") as client:
        for ask in (client.ping(), client.stats(), client.download(new_task_id(), "plot.png", tmp_path)):
            with pytest.raises(ConnectionFailed) as raised:
                await ask

            assert [f"no server answers at {url} (" in str(raised.value) for url in dead] == [True, True]


async def test_a_refused_token_ends_the_session_for_good() -> None:
    async with fake_server(echo) as fake, session_to(fake) as session:
        await session.call("ping")
        await fake.connections[0].close(4401, "the token was revoked")

        with pytest.raises(Unauthorized, match="revoked"):
            while True:
                await session.call("ping")


async def test_each_request_that_a_refused_token_fails_raises_an_error_of_its_own() -> None:
    """It was one for all: its traceback grew with each request, for as long as the program lived."""
    errors: list[BaseException] = []

    async def ask(session: Session) -> None:
        with pytest.raises(Unauthorized, match="revoked") as refused:
            await session.call("ping")
        errors.append(refused.value)

    async with fake_server(lambda _: None) as fake, session_to(fake) as session:
        async with asyncio.TaskGroup() as group:
            asking = [group.create_task(ask(session)) for _ in range(2)]
            await something_came(fake)
            await fake.connections[0].close(4401, "the token was revoked")
            await asyncio.wait(asking)
        for _ in range(2):
            await ask(session)

    assert len({id(error) for error in errors}) == 4
    assert len({len(traceback.extract_tb(error.__traceback__)) for error in errors[2:]}) == 1
    assert {str(error) for error in errors} == {str(errors[0])}


async def test_a_token_that_a_server_wrote_after_it_took_the_connection_is_shown_at_once(tmp_path: Path) -> None:
    """Its first start takes connections before the token is there, and answers them when it is."""
    settings = settings_in(tmp_path)

    async def starting(ws: ServerConnection) -> None:
        assert ws.request is not None
        [hello] = from_json(await ws.recv())["items"]
        if ws.request.headers.get("Authorization") == "Bearer first":
            await ws.send(to_json({"items": [{"re": hello["n"], "ok": HELLO}]}), text=True)
            async for message in ws:
                [ping] = from_json(message)["items"]
                await ws.send(to_json({"items": [{"re": ping["n"], "ok": {"time": "now"}}]}), text=True)
        else:
            settings.token_path.write_text("first")
            await ws.close(4401, "send a token")

    async with serve(starting, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
        async with Client(url, settings=settings) as client:
            assert await client.ping() == {"time": "now"}


async def test_problems_are_raised_as_their_exceptions() -> None:
    problem = problem_named("job-not-found", "there is no job x").model_dump(mode="json")
    async with fake_server(lambda _: problem) as fake, session_to(fake) as session:
        with pytest.raises(JobNotFound, match="there is no job x") as error:
            await session.call("submit")

    assert error.value.problem.status == 404


async def test_a_request_that_can_not_be_sent_fails_alone() -> None:
    async with fake_server(echo) as fake, session_to(fake) as session:
        large, odd, fine = await asyncio.gather(
            session.call("submit", {"text": "x" * MAX_FRAME}),
            session.call("submit", {"text": "\ud800"}),
            session.call("ping"),
            return_exceptions=True,
        )

    assert isinstance(large, PayloadTooLarge)
    assert isinstance(odd, InvalidArguments)
    assert fine["echo"]["op"] == "ping"


async def test_pushes_are_dispatched_and_what_opens_runs_after_each_connection() -> None:
    pushed: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    opened: asyncio.Queue[str] = asyncio.Queue()

    async def on_connect() -> None:
        opened.put_nowait("open")

    async with fake_server(echo) as fake, session_to(fake, on_push=pushed.put_nowait, on_connect=on_connect):
        await opened.get()
        await fake.push(push="result", tasks=[])
        assert await pushed.get() == {"push": "result", "tasks": []}
        await fake.connections[0].close(1001)
        assert await opened.get() == "open"

    assert len(fake.connections) == 2


async def test_a_server_without_sockets_is_told_apart_from_one_that_is_away() -> None:
    async with fake_server(echo) as fake:
        fake.refuse = HTTPStatus.NOT_FOUND
        async with session_to(fake) as session:
            with pytest.raises(SocketRefused, match="404"):
                await session.call("ping")
        fake.refuse = HTTPStatus.BAD_GATEWAY
        async with session_to(fake) as session:
            with pytest.raises(ConnectionFailed, match="502") as error:
                await session.call("ping")
            assert not isinstance(error.value, SocketRefused)


@pytest.mark.parametrize("said", ["<html>", '{"items": [{"push": "result"}]}', '{"items": [{"re": [], "ok": {}}]}'])
async def test_what_can_not_be_read_each_time_fails_who_waits_so_that_plain_http_may_do(
    said: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As behind something that spoils frames: the connection was made anew for ever, and nobody was told."""

    async def spoil(ws: ServerConnection) -> None:
        await ws.recv()
        await ws.send(to_json({"items": [{"re": 0, "ok": HELLO}]}), text=True)
        await ws.recv()
        await ws.send(said)
        await ws.wait_closed()

    async with serve(spoil, "127.0.0.1", 0) as server, asyncio.TaskGroup() as group:
        port = next(iter(server.sockets)).getsockname()[1]
        session = Session((f"http://127.0.0.1:{port}",), "secret", on_push=lambda item: item["tasks"])
        group.create_task(session.run())
        with pytest.raises(SocketRefused, match=r"can't be read|other than a frame"):
            await session.call("get", {"id": "x"})
        await session.close()
    assert [record.exc_info for record in caplog.records] == [None]


async def test_a_request_over_which_each_connection_breaks_fails_when_its_patience_is_over() -> None:
    """It was sent again for ever."""

    async def breaks(ws: ServerConnection) -> None:
        await ws.recv()
        await ws.send(to_json({"items": [{"re": 0, "ok": HELLO}]}), text=True)
        await ws.recv()
        ws.transport.abort()

    async with serve(breaks, "127.0.0.1", 0) as server, asyncio.TaskGroup() as group:
        port = next(iter(server.sockets)).getsockname()[1]
        session = Session((f"http://127.0.0.1:{port}",), "secret", on_push=lambda _: None, patience=0)
        group.create_task(session.run())
        with pytest.raises(ConnectionLost, match="the connection broke before the answer came"):
            await session.call("get", {"id": "x"})
        await session.close()


@pytest.mark.parametrize("told", [None, "16", [], {}])
async def test_who_greets_without_a_number_of_bytes_is_no_treadle_server(told: Any) -> None:
    """Each request was tried for ever."""
    async with fake_server(echo) as server:
        server.hello = {**HELLO, "max_bytes": told}
        async with session_to(server) as session:
            with pytest.raises(SocketRefused, match="not a Treadle server's"):
                await session.call("get", {"id": "x"})
