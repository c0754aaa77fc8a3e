"""The end of a token, the wrong ones, and that none is ever told (G9, G10)."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
from uvicorn.protocols.http import httptools_impl
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.api.rooms import Room, make_room, problem, token_of, until
from tests.chaos.processes import ServerProcess, running_server
from tests.clients import client_at
from tests.conftest import FakeClock
from tests.live.sockets import connected, url_of
from treadle_server.access.failures import MOST_ADDRESSES, WINDOW_SECONDS, Failures
from treadle_server.testing import Served, serve

HALF_A_SECOND = timedelta(seconds=0.5)


async def _id_of(root: httpx.AsyncClient, name: str) -> str:
    items = (await root.get("/v1/tokens")).json()["items"]
    return next(str(item["id"]) for item in items if item["name"] == name)


def _is_waiting(served: Served, task_id: str) -> bool:
    return task_id in served.app.state.ctx.waits._events


async def test_a_revoked_token_ends_its_session_and_its_long_polls_at_once_g10(
    served: Served, root: httpx.AsyncClient, alice: httpx.AsyncClient, lab: Room
) -> None:
    task = await lab.submit()
    mine = await make_room(alice, "mine")
    dispatcher = served.engine.dispatcher
    async with connected(served, token_of(alice)) as socket:
        polls = [
            asyncio.create_task(alice.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=30"})),
            asyncio.create_task(alice.post("/v1/tasks/claim", json={"worker_id": mine.worker_id, "wait": 20})),
        ]
        await until(lambda: _is_waiting(served, task["id"]) and dispatcher.has_taker)
        async with asyncio.timeout(15):
            assert (await root.delete(f"/v1/tokens/{await _id_of(root, 'alice')}")).status_code == 204
            answers = await asyncio.gather(*polls)
            code = await socket.closed()

    assert [(answer.status_code, problem(answer)) for answer in answers] == [(401, "unauthorized")] * 2
    assert code == 4401
    assert not dispatcher.has_taker


async def test_who_shows_a_revoked_token_is_told_what_became_of_it_g9(
    served: Served, root: httpx.AsyncClient, alice: httpx.AsyncClient
) -> None:
    """Over HTTP and in a close code, whose reason is short."""
    await root.delete(f"/v1/tokens/{await _id_of(root, 'alice')}")

    detail = (await alice.get("/v1/whoami")).json()["detail"]

    async with connect(url_of(served)) as socket:
        await socket.send(f'{{"items": [{{"op": "hello", "n": 0, "protocol": 1, "token": "{token_of(alice)}"}}]}}')
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert "revoked, or another server's" in detail
    assert "make one with `treadle token create`" in detail
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.reason == detail


async def test_an_expiring_token_ends_its_session_and_its_long_poll_when_it_expires_g10(
    database_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    """However long the machine took until both wait: the clock stands still meanwhile."""
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(database_url, data_dir=tmp_path / "data", clock=clock))
        root = await stack.enter_async_context(client_at(served.url, served.headers))
        task = await (await make_room(root)).submit()
        wanted = {"name": "sam", "scopes": ["queue:read:lab"], "expires_at": (clock.now() + HALF_A_SECOND).isoformat()}
        token = (await root.post("/v1/tokens", json=wanted)).json()["token"]
        client = await stack.enter_async_context(client_at(served.url, {"Authorization": f"Bearer {token}"}))
        socket = await stack.enter_async_context(connected(served, token))
        poll = asyncio.create_task(client.get(f"/v1/tasks/{task['id']}", headers={"Prefer": "wait=30"}))
        await until(lambda: _is_waiting(served, task["id"]))

        clock.advance(0.5)
        async with asyncio.timeout(15):
            answer, code = await poll, await socket.closed()

    assert (answer.status_code, problem(answer), code) == (401, "unauthorized", 4401)
    assert "expired" in answer.json()["detail"]


def test_who_fails_too_often_waits_until_the_first_failure_is_old_and_others_do_not_g10(clock: FakeClock) -> None:
    failures = Failures(3, clock)

    assert [failures.note("10.0.0.1") for _ in range(3)] == [None] * 3
    clock.advance(4)
    assert failures.note("10.0.0.1") == pytest.approx(WINDOW_SECONDS - 4)
    assert failures.note("10.0.0.2") is None
    clock.advance(WINDOW_SECONDS - 4)
    assert [failures.note("10.0.0.1") for _ in range(3)] == [None] * 3
    assert failures.note("10.0.0.1") is not None


def test_addresses_of_one_ipv6_network_count_together_and_memory_is_bounded_g10(clock: FakeClock) -> None:
    failures = Failures(2, clock)

    assert [failures.note(f"2001:db8::{n}") for n in range(2)] == [None, None]
    assert failures.note("2001:db8::ffff") is not None
    assert failures.note("2001:db8:0:1::1") is None
    assert [failures.note(f"::ffff:10.0.0.{n}") for n in (1, 1, 2)] == [None, None, None]
    assert failures.note("10.0.0.1") is not None
    for n in range(MOST_ADDRESSES):
        failures.note(f"10.{n >> 16}.{n >> 8 & 255}.{n & 255}")
    assert len(failures._by_address) <= MOST_ADDRESSES


async def test_an_address_with_many_wrong_tokens_is_told_to_wait_and_a_valid_one_still_gets_in_g10(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        serve(data_dir=tmp_path, max_failed_tokens=3) as served,
        httpx.AsyncClient(base_url=served.url) as client,
    ):
        wrong = {"Authorization": "Bearer tdl_guess"}
        codes = [(await client.get("/v1/whoami", headers=wrong)).status_code for _ in range(4)]
        waits = await client.get("/v1/whoami", headers=wrong)

        assert codes == [401, 401, 401, 429]
        assert problem(waits) == "too-many-requests"
        assert 0 < int(waits.headers["retry-after"]) <= WINDOW_SECONDS
        assert (await client.get("/v1/whoami", headers=served.headers)).status_code == 200
        # Who sends none guesses nothing.
        assert (await client.get("/v1/whoami")).status_code == 401
    [said] = [record.getMessage() for record in caplog.records if "invalid tokens" in record.getMessage()]
    assert "127.0.0.1" in said
    assert "tdl_" not in said


@pytest.mark.parametrize(
    ("trusted", "forwarded", "codes"),
    [
        # Whoever connects from this machine might name an address for each guess.
        ("", "10.0.0.{n}", [401, 401, 429, 429]),
        ("10.0.0.0/8", "10.0.0.{n}", [401, 401, 429, 429]),
        # A proxy names another client each time; what the client itself has written before that is nothing.
        ("127.0.0.1", "192.0.2.{n}", [401, 401, 401, 401]),
        ("10.0.0.0/8, 127.0.0.0/8", "192.0.2.{n}, 192.0.2.9, 10.0.0.7", [401, 401, 429, 429]),
    ],
)
async def test_a_forwarded_address_counts_only_from_a_proxy_that_the_setting_names_g10(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trusted: str, forwarded: str, codes: list[int]
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own, which is not asked
    async with (
        serve(data_dir=tmp_path, max_failed_tokens=2, trusted_proxies=trusted) as served,
        httpx.AsyncClient(base_url=served.url, headers={"Authorization": "Bearer tdl_guess"}) as client,
    ):
        found = [
            (await client.get("/v1/whoami", headers={"X-Forwarded-For": forwarded.format(n=n)})).status_code
            for n in range(4)
        ]

    assert found == codes


@pytest.mark.parametrize("proxies", ["127.0.0.1", ""])
async def test_an_ipv4_address_at_a_server_that_listens_at_ipv6_is_that_address_g10(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proxies: str
) -> None:
    """They come as ::ffff:…, were taken for one /64, that of them all, and their proxies were not believed."""
    peer = ["::ffff:127.0.0.1"]
    monkeypatch.setattr(httptools_impl, "get_remote_addr", lambda _: (peer[0], 1))

    async def guess(served: Served, forwarded: str) -> int:
        headers = {"Authorization": "Bearer tdl_guess", "X-Forwarded-For": forwarded}
        async with httpx.AsyncClient(base_url=served.url, headers=headers) as client:
            return (await client.get("/v1/whoami")).status_code

    async with serve(data_dir=tmp_path, max_failed_tokens=1, trusted_proxies=proxies) as served:
        asked = [await guess(served, "10.0.0.1"), await guess(served, "10.0.0.2")]
        peer[0] = "::ffff:127.0.0.2"
        asked.append(await guess(served, "10.0.0.1"))

    # Of a proxy the second has an address of his own; without one they are all of 127.0.0.1 until another one asks.
    assert asked == ([401, 401, 401] if proxies else [401, 429, 401])


async def test_no_token_stands_in_a_log_an_answer_or_a_url_whatever_fails_g10(tmp_path: Path) -> None:
    secret = "tdl_this-is-nobodys-business-0123456789"
    with running_server(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}", TREADLE_MAX_FAILED_TOKENS="5") as server:
        token = server.token
        said = await _fail_in_every_way(server, secret)
        said += await _fail_in_every_way(server, token)
        assert server.headers["Authorization"].endswith(token)
    said += server.log.read_text()

    assert "5 invalid tokens" in said
    assert secret not in said
    assert token not in said


async def _fail_in_every_way(server: ServerProcess, secret: str) -> str:
    """Return everything that is answered to a token in the right and in wrong places."""
    answers = []
    async with httpx.AsyncClient(base_url=server.url) as client:
        for given in (f"Bearer {secret}", f"Basic {secret}", f"Bearer {secret} {secret}", secret):
            for method, path in (("GET", "/v1/whoami"), ("POST", "/v1/tasks/claim"), ("GET", "/v1/none")):
                sent = client.request(method, path, headers={"Authorization": given}, content=b"{")
                answers.append(await sent)
        told = ("/v1/events", "/v1/tokens", "/v1/tasks")
        answers += [await client.get(path, headers=server.headers) for path in told]
    for hello in (f'{{"op":"hello","n":0,"protocol":9,"token":"{secret}"}}', f'"{secret}"', f'{{"token":"{secret}'):
        for text in (f'{{"items":[{hello}]}}', hello):
            async with connect(server.socket_url) as connection:
                await connection.send(text)
                with pytest.raises(ConnectionClosed) as closed:
                    await connection.recv()
            assert secret not in str(closed.value)
    assert len(answers) == 15
    return "".join(answer.text + repr(answer.headers) for answer in answers)


async def test_a_page_of_another_site_opens_no_socket_even_with_a_token_g10(served: Served) -> None:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(url_of(served), origin="https://evil.example", additional_headers=served.headers):  # type: ignore[arg-type]
            pass
    assert refused.value.response.status_code == 403
    async with connect(url_of(served), origin=served.url, additional_headers=served.headers):  # type: ignore[arg-type]
        pass
