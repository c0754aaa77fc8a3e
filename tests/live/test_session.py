"""Hello, frames, and how a session ends."""

import asyncio
import json
from collections import Counter
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.websockets import WebSocket, WebSocketState
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests import waiting
from tests.live.conftest import Open
from tests.live.sockets import Socket, connected, url_of
from treadle_server.access.principal import Principal
from treadle_server.live import session
from treadle_server.live.connection import Connection
from treadle_server.live.outbox import Outbox
from treadle_server.testing import Served, serve


async def test_a_hello_is_answered_with_who_asks_and_where_the_stream_is(served: Served):
    async with connect(url_of(served)) as connection:
        await connection.send(json.dumps({"items": [{"op": "hello", "n": 5, "protocol": 1, "token": served.token}]}))
        [answer] = json.loads(await connection.recv())["items"]

    assert answer["re"] == 5
    assert (answer["ok"]["user"], answer["ok"]["superuser"], answer["ok"]["protocol"]) == ("admin", True, 1)
    assert (answer["ok"]["stream"], answer["ok"]["seq"]) == (served.engine.hub.stream, served.engine.hub.seq)
    assert answer["ok"]["time"].endswith("Z")


async def test_what_stands_behind_the_hello_in_its_frame_is_answered_too(served: Served):
    headers = served.headers
    async with connect(url_of(served), additional_headers=headers) as connection:
        await connection.send(json.dumps({"items": [{"op": "hello", "n": 0}, {"op": "ping", "n": 1}]}))
        answers = []
        while len(answers) < 2:
            answers += json.loads(await connection.recv())["items"]

    assert [answer["re"] for answer in answers] == [0, 1]


@pytest.mark.parametrize(
    ("first", "code"),
    [
        ('{"items": [{"op": "hello", "n": 0, "token": "wrong"}]}', 4401),
        ('{"items": [{"op": "hello", "n": 0}]}', 4401),
        ('{"items": [{"op": "ping", "n": 0}]}', 4400),
        ('{"items": [{"op": "hello", "n": 0, "protocol": 2}]}', 4400),
        ('{"items": [{"op": "hello", "n": 0, "no_such": 2}]}', 4400),
        ('{"items": []}', 4400),
        ('{"items": {}}', 4400),
        ('{"items": [1]}', 4400),
        ('{"items": [], "more": 1}', 4400),
        ("[]", 4400),
        ("nonsense", 4400),
        (b"\x00\x01", 4400),
    ],
)
async def test_a_bad_first_frame_ends_the_session_with_its_code(served: Served, first: str | bytes, code: int):
    async with connect(url_of(served)) as connection:
        await connection.send(first)
        with pytest.raises(ConnectionClosed) as ended:
            await connection.recv()

    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == code


@pytest.mark.parametrize("name", ["ä" * 200, "日本語" * 100, "x" * 500, "\\ud800" * 30])
async def test_why_a_hello_is_refused_is_told_as_far_as_it_fits_whatever_it_quotes(served: Served, name: str):
    """A close frame holds 123 bytes: of a longer reason nothing was sent, and the log told of a defect."""
    async with connect(url_of(served)) as connection:
        await connection.send(f'{{"items": [{{"op": "hello", "n": 0, "{name}": 1}}]}}')
        with pytest.raises(ConnectionClosed) as ended:
            await connection.recv()

    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == 4400
    assert ended.value.rcvd.reason


async def test_who_says_no_hello_is_sent_away(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(session, "HELLO_SECONDS", 0.05)
    async with serve() as served, connect(url_of(served)) as connection:
        await connection.wait_closed()
        assert connection.close_code == 4408


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://["])
async def test_pages_of_other_sites_are_not_let_in(origin: str):
    async with serve() as served:
        with pytest.raises(InvalidStatus) as refused:
            await connect(url_of(served), additional_headers=served.headers, origin=origin)  # type: ignore[arg-type]
        assert refused.value.response.status_code == 403
        assert refused.value.response.headers["content-type"] == "application/problem+json"
        assert "TREADLE_ALLOWED_ORIGINS" in json.loads(refused.value.response.body or b"")["detail"]
        async with connect(url_of(served), additional_headers=served.headers, origin=served.url) as own:  # type: ignore[arg-type]
            await own.ping()


async def test_a_socket_where_there_is_none_is_a_404_that_says_where_there_is(served: Served):
    for path in ("/v1/session/", "/v1/tasks", "/", "/queue/v1/session"):
        with pytest.raises(InvalidStatus) as refused:
            await connect(url_of(served).removesuffix("/v1/session") + path, additional_headers=served.headers)

        problem = json.loads(refused.value.response.body or b"")
        assert (problem["status"], refused.value.response.status_code) == (404, 404)
        assert "/v1/session" in problem["detail"]


async def test_who_asks_the_session_for_no_socket_is_told_what_it_is(served: Served):
    """A proxy that does not pass Upgrade on makes such a request of a client's."""
    async with httpx.AsyncClient(base_url=served.url) as client:
        answer = await client.get("/v1/session")
        other = await client.post("/v1/session")

    assert (answer.status_code, answer.json()["type"]) == (426, "/v1/problems/upgrade-required")
    assert (answer.headers["upgrade"], answer.headers["connection"]) == ("websocket", "Upgrade")
    assert (other.status_code, set(other.headers["allow"].split(", "))) == (405, {"GET", "HEAD"})


@pytest.mark.parametrize(
    "frame",
    ["{", "[]", '{"a": "\\u0000"}', '{"items": 1}', '{"items": [], "more": 1}', '{"items": [' + "[" * 1000],
)
async def test_what_is_no_frame_ends_the_session(opened: Open, frame: str):
    socket = await opened()

    await socket.connection.send(frame)

    assert await socket.closed() == 4400


async def test_a_request_that_is_wrong_is_answered_with_its_problem_and_the_session_goes_on(opened: Open):
    socket = await opened()

    assert await socket.refused("dance") == "validation-error"
    assert await socket.refused("submit", room="lab") == "validation-error"
    assert await socket.refused("submit", room="@lab", tasks=[{"job": "a:b:c"}]) == "invalid-room-id"
    assert await socket.refused("submit_each", room="@lab", tasks=[{"job": "a:b:c"}]) == "invalid-room-id"
    assert await socket.refused("get", id="01a1fca0-0000-7000-8000-000000000000") == "task-not-found"
    assert await socket.refused("beat") == "worker-not-found"
    assert await socket.refused("watch", sub="x", topic="weather") == "validation-error"
    assert await socket.refused("watch", sub="x", topic="task") == "validation-error"
    assert await socket.refused("await", ids=["x"]) == "validation-error"
    assert await socket.refused("ping", more=1) == "validation-error"
    assert "time" in await socket.call("ping")


async def test_many_requests_of_one_frame_are_all_answered(opened: Open):
    socket = await opened()

    futures = await socket.send(*({"op": "ping"} for _ in range(500)))
    answers = [await future for future in futures]

    assert all("time" in answer["ok"] for answer in answers)
    assert socket.frames < 100


async def test_a_server_that_stops_says_so(opened: Open):
    async with serve() as served, connected(served) as socket:
        await served.app.state.live.close()
        assert await socket.closed() == 1001


async def test_a_reader_that_is_too_slow_is_dropped(served: Served):
    """G7: never waited for."""
    async with connected(served) as socket:
        slow: Socket = socket
        [one] = served.app.state.live._sessions
        one.outbox._limit = 1000

        for n in range(100):
            one.push("result", tasks=[{"filler": "x" * 100, "n": n}])

        assert await slow.closed() == 4408


async def test_a_revoked_token_ends_its_sessions_at_once(served: Served, opened: Open):
    """G10."""
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        made = (await http.post("/v1/tokens", json={"name": "alice"})).json()
        alice, root = await opened(made["token"]), await opened()

        await http.delete(f"/v1/tokens/{made['id']}")

    assert await alice.closed() == 4401
    await root.call("ping")


async def test_what_is_still_to_be_sent_when_the_server_has_closed_the_socket_is_no_error() -> None:
    """As at its end, when hundreds of sessions have something to say."""
    outbox = Outbox(1000)
    outbox.put(b'{"push":"x"}')
    closed = WebSocket({"type": "websocket"}, receive=None, send=None)  # type: ignore[arg-type]
    closed.application_state = WebSocketState.DISCONNECTED

    await session._write(SimpleNamespace(outbox=outbox, socket=closed))  # type: ignore[arg-type]


async def test_what_waits_for_one_who_is_cut_off_is_none_of_what_waits_for_all(served: Served) -> None:
    live = served.app.state.live
    socket = WebSocket({"type": "websocket"}, receive=None, send=None)  # type: ignore[arg-type]
    cut_off = Connection(socket, Principal("admin", superuser=True), None, Outbox(1000, live.backlog))

    with pytest.raises(asyncio.CancelledError), live.pushing_to(cut_off):
        cut_off.outbox.put(b'{"push":"x"}')
        assert live.backlog.size > 0
        raise asyncio.CancelledError

    assert live.backlog.size == 0


async def test_a_stranger_who_is_gone_before_he_is_refused_leaves_no_trace_n3(served: Served) -> None:
    """His first frame is none; he has broken the connection off before he is told."""
    said: list[dict[str, Any]] = []
    heard = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "[]"}])

    async def receive() -> dict[str, Any]:
        return next(heard)

    async def send(message: dict[str, Any]) -> None:
        said.append(message)
        if message["type"] == "websocket.close":
            raise OSError("he is gone")

    scope = {"type": "websocket", "path": "/v1/session", "headers": [], "client": ("127.0.0.1", 1), "state": {}}
    assert await session.accept(served.app.state.live, WebSocket(scope, receive, send)) is None

    assert [message["type"] for message in said] == ["websocket.accept", "websocket.close"]


async def test_others_have_their_turn_between_the_many_requests_of_one_frame_n2(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand were begun at once: twenty sessions that each asked so made others wait for a second."""
    begun: Counter[int] = Counter()
    turn, answer = 0, session._answer

    async def turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    async def noted(*asked: Any) -> None:
        begun[turn] += 1
        await answer(*asked)

    monkeypatch.setattr(session, "_answer", noted)
    socket = await opened()
    counting = asyncio.create_task(turns())
    answers = await asyncio.gather(*await socket.send(*[{"op": "ping"}] * 1000))
    counting.cancel()

    assert [answer for answer in answers if "ok" not in answer] == []
    assert begun.total() == 1000
    # A turn that is counted may be the end of one and the beginning of the next.
    assert max(begun.values()) <= 2 * session.MOST_IN_TURN


async def test_of_a_hundred_views_that_one_asks_for_few_are_opened_at_once_and_none_when_he_is_gone_n3(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All were read to the end, for nobody, and those who came meanwhile waited for them."""
    feeds, asked = served.app.state.live.feeds, []
    go_on, opening = asyncio.Event(), feeds.open

    async def slow(key: str, view: Any) -> Any:
        asked.append(key)
        await go_on.wait()
        return await opening(key, view)

    monkeypatch.setattr(feeds, "open", slow)
    socket = await opened()
    watches = [{"op": "watch", "sub": str(n), "topic": "tasks", "window": {"offset": n}} for n in range(100)]
    *_, last = await socket.send(*watches, {"op": "ping"})
    await last
    before = len(asked)
    await socket.connection.close()
    sessions = served.app.state.live._sessions
    await waiting.until(lambda: all(one.outbox.is_closed for one in sessions))
    go_on.set()
    await waiting.until(lambda: not sessions)

    assert before == len(asked) == session.LARGE_AT_ONCE
    assert not feeds._feeds
