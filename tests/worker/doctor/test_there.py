"""What is wrong between here and the server, each defect played by a server of its own."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.waiting import until
from treadle.doctor import there
from treadle.doctor.examination import LIMIT, examine
from treadle.wire.findings import Finding
from treadle_server.testing import Served

Found = dict[str, Finding]


async def examined(url: str, monkeypatch: pytest.MonkeyPatch, token: str = "token", limit: float = 30.0) -> Found:
    monkeypatch.setenv("TREADLE_URL", url)
    monkeypatch.setenv("TREADLE_TOKEN", token)
    async with AsyncExitStack() as stack:
        return {one.check: one for one in await examine(there.checks(stack, limit), limit)}


def now(ahead: float = 0.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=ahead)).isoformat()


def health(**said: Any) -> dict[str, Any]:
    return {"status": "ok", "version": "0.1.0", **said}


def stats(ahead: float = 0.0) -> dict[str, Any]:
    whole = dict.fromkeys(("jobs", "workers", "slots", "used"), 0)
    names = ("version", "database")
    return {"counts": {}, **whole, **dict.fromkeys(names, "x"), "started_at": now(), "server_time": now(ahead)}


class Played:
    """What the server answers, by path: JSON, or a status and JSON."""

    def __init__(self) -> None:
        self.answers: dict[str, Callable[[], Any]] = {
            "/v1/healthz": lambda: health(services={"store": "ok"}, time=now()),
            "/v1/readyz": lambda: health(services={}),
            "/v1/whoami": lambda: {"user": "me", "superuser": False, "scopes": ["queue:read:*"], "may_write": False},
            "/v1/stats": stats,
            "/v1/workers": lambda: {"items": [], "total": 0, "limit": 50},
        }
        self.url = ""


@asynccontextmanager
async def playing() -> AsyncIterator[Played]:
    """Play a server of plain HTTP during the block: no websocket can be opened."""
    played = Played()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            path = head.split()[1].partition("?")[0]
            path = path if path.startswith("/v1") else f"/v1{path}"
            found = played.answers[path]() if path in played.answers else (404, {"status": 404, "title": "none"})
            status, body = found if isinstance(found, tuple) else (200, found)
            data = json.dumps(body).encode()
            kind = "application/problem+json" if status >= 400 else "application/json"
            head = f"HTTP/1.1 {status} Played\r\nContent-Type: {kind}\r\nContent-Length: {len(data)}\r\n"
            writer.write(f"{head}Connection: close\r\n\r\n".encode() + data)
            await writer.drain()
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        played.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield played


async def test_a_real_server_is_well_f8(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    # How long the way takes, and what it makes of a clock, says how busy the machine is.
    monkeypatch.setattr(there, "SLOW", 60.0)
    monkeypatch.setattr(there, "SKEW", 60.0)

    async with httpx.AsyncClient(base_url=server.url) as http:

        async def is_ready() -> bool:
            return (await http.get("/readyz")).status_code == 200

        await until(is_ready)

    found = await examined(server.url, monkeypatch, server.token)

    assert list(found) == ["server", "ready", "token", "socket", "clocks", "workers"]
    assert [one for one in found.values() if one.grade != "ok"] == []
    assert "a superuser" in found["token"].detail


async def test_a_token_that_ends_soon_is_found(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers) as http:
        made = {
            days: (await http.post("/v1/tokens", json={"name": f"in{days}", "expires_at": now(days * 86_400)})).json()
            for days in (3, 30)
        }

    soon, later = [(await examined(server.url, monkeypatch, made[days]["token"]))["token"] for days in (3, 30)]

    assert (soon.grade, later.grade) == ("warn", "ok")
    assert "in 72 hours" in soon.detail
    assert "with the rights of an ordinary user, until 20" in later.detail


async def test_a_token_that_is_not_taken_fails(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    found = await examined(server.url, monkeypatch, "wrong")

    assert (found["server"].grade, found["token"].grade) == ("ok", "fail")
    assert "Unauthorized" in found["token"].detail


async def test_an_address_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = await examined("nowhere", monkeypatch)

    assert [(one.check, one.grade) for one in found.values()] == [("server", "fail")]
    assert "'nowhere' is not a server's address" in found["server"].detail


async def test_where_nobody_answers_nothing_else_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        found = await examined(f"http://127.0.0.1:{taken.getsockname()[1]}", monkeypatch)

    assert [(one.check, one.grade) for one in found.values()] == [("server", "fail")]
    assert "treadle server" in found["server"].detail


async def test_a_server_that_takes_connections_and_says_nothing_is_found_in_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        found = await examined(url, monkeypatch, limit=0.5)

    assert (found["server"].grade, found["server"].detail) == ("fail", f"{url} does not answer within 0.4 s")


def service(state: str) -> Callable[[], Any]:
    return lambda: health(services={"store": "ok", "sweeper": state})


SPOILT = {
    "older server": ("/v1/healthz", lambda: health(version="0.0.9"), "server", "warn", "has version 0.0.9"),
    "failing service": ("/v1/healthz", service("ValueError: no"), "ready", "warn", "sweeper: ValueError: no"),
    "failing store": (
        "/v1/healthz", lambda: health(services={"store": "the disk is full"}),
        "ready", "fail", "the disk is full",
    ),
    "failing together": (
        "/v1/healthz", lambda: health(services={"store": "no", "tokens": "no", "relay": "late"}),
        "ready", "fail", "not well: store, tokens: no; relay: late",
    ),
    "not ready": ("/v1/readyz", lambda: (503, {"status": "not ready"}), "ready", "fail", "not ready by /readyz"),
    "unread": (
        "/v1/readyz", lambda: (503, health(status="not ready", services={"store": "no answer", "relay": "ok"})),
        "ready", "fail", "load balancers send it no requests (store: no answer)",
    ),
    "store's clock": ("/v1/stats", lambda: stats(-60), "clocks", "warn", "the store's clock is -"),
    "server's clock": (
        "/v1/healthz", lambda: health(time=now(90)), "clocks", "warn", "the server's clock is +",
    ),
    "older worker": (
        "/v1/workers",
        lambda: {
            "items": [{"version": "0.0.5", "state": "online"}, {"version": "0.0.1", "state": "lost"}],
            "total": 2, "limit": 50,
        },
        "workers", "warn", "1 of 0.0.5, and this is",
    ),
    "no websocket": ("/v1/nothing", dict, "socket", "warn", "plain HTTP"),
    "reader": ("/v1/nothing", dict, "token", "ok", "with queue:read:*: it may read, but change nothing"),
}  # fmt: skip


@pytest.mark.parametrize(("path", "answer", "check", "grade", "words"), SPOILT.values(), ids=SPOILT.keys())
async def test_each_defect_of_a_server_is_found_f8(
    path: str, answer: Callable[[], Any], check: str, grade: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with playing() as played:
        played.answers[path] = answer

        found = await examined(played.url, monkeypatch)

    assert words in found[check].detail
    assert found[check].grade == grade


async def test_a_token_of_which_the_server_can_say_nothing_is_not_to_be_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While the database was away the doctor had its readers ask for a new one."""
    async with playing() as played:
        played.answers["/v1/whoami"] = lambda: (503, {"type": "/v1/problems/store-unavailable", "status": 503})

        found = (await examined(played.url, monkeypatch))["token"]

    assert (found.grade, "treadle token create" in (found.advice or "")) == ("fail", False)


async def test_a_server_that_has_just_begun_is_given_time_for_its_first_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    states = iter(["starting", "starting", "starting"])

    def healthz() -> Any:
        return service(next(states, "ok"))()

    async with playing() as played:
        played.answers["/v1/healthz"] = healthz
        begun = await examined(played.url, monkeypatch)
        monkeypatch.setattr(there, "STARTING", 0.0)
        played.answers["/v1/healthz"] = service("starting")
        stuck = await examined(played.url, monkeypatch)

    assert begun["ready"].grade == "ok"
    assert (stuck["ready"].grade, stuck["ready"].detail) == ("warn", "not well: sweeper: starting")


async def test_a_slow_way_is_found(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(there, "SLOW", 0.0)

    assert (await examined(server.url, monkeypatch, server.token))["socket"].grade == "warn"


async def test_of_several_servers_each_is_looked_at_and_named(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing() as played:
        monkeypatch.setenv("TREADLE_URL", f"{server.url},{played.url}")
        monkeypatch.setenv("TREADLE_TOKEN", server.token)
        async with AsyncExitStack() as stack:
            found = await examine(there.checks(stack, LIMIT))

    tokens = [one.detail for one in found if one.check == "token"]
    assert [detail.partition(": ")[0] for detail in tokens] == [server.url, played.url]
