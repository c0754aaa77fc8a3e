"""A client's connection: what it asks again while the server has no database, and for how long."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any

import pytest

from treadle import Client, SyncClient, errors, task
from treadle.client import connection
from treadle.settings import InvalidSetting
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.inside  # the server's disk is full


@task
def double(n: int) -> int:
    return 2 * n


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    async with serve() as served:
        yield served


@pytest.fixture
def full(served: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], list[object]]:
    """Have the server's disk be full for so many commits; the list has those that failed."""
    from treadle_server.errors import StoreUnavailable

    store = served.engine.store
    write = store.write

    def begin(times: float) -> list[object]:
        failed: list[object] = []

        @asynccontextmanager
        async def failing(**how: Any) -> AsyncIterator[Any]:
            if len(failed) < times:
                failed.append(how)
                raise StoreUnavailable("the disk is full", retry_after=1)
            async with write(**how) as tx:
                yield tx

        monkeypatch.setattr(store, "write", failing)
        return failed

    return begin


@pytest.mark.parametrize("is_plain", [False, True], ids=["socket", "HTTP"])
async def test_what_does_no_harm_twice_waits_for_the_servers_database(
    served: Served, full: Callable[[float], list[object]], caplog: pytest.LogCaptureFixture, *, is_plain: bool
) -> None:
    async def shown() -> str:
        return served.token

    async with Client(served.url, shown if is_plain else served.token) as client:
        await client.register(double)
        failed = full(3)

        handles = await asyncio.gather(*(client.submit(double.bind(n)) for n in range(5)))
        many = await client.submit_many([double.bind(n) for n in range(5)])

        assert len(failed) == 3
        assert (await client.list()).total == len(handles) + len(many)
        waits = [record.getMessage() for record in caplog.records if record.name == "treadle.client"]
        assert [sentence.partition("; ")[2] for sentence in waits] == ["trying again"]


async def test_an_http_request_waits_as_well(served: Served, full: Callable[[float], list[object]]) -> None:
    async with Client(served.url, served.token) as client:
        await client.register(double)
        full(2)

        made = await client.set_schedule("nightly", job=double.full_name, payload={"n": 1}, interval=60)

        assert made.name == "nightly"


async def test_what_may_have_been_done_is_not_asked_again(
    served: Served, full: Callable[[float], list[object]]
) -> None:
    async with Client(served.url, served.token) as client:
        handle = await client.submit(double.bind(1))
        failed = full(1)

        with pytest.raises(errors.StoreUnavailable, match="the disk is full"):
            await handle.pause()

        assert len(failed) == 1


async def test_after_its_patience_all_of_a_batch_are_told(
    served: Served, full: Callable[[float], list[object]]
) -> None:
    async with Client(served.url, served.token, patience=0.2) as client:
        await client.register(double)
        began = asyncio.get_running_loop().time()
        failed = full(float("inf"))

        told = await asyncio.gather(*(client.submit(double.bind(n)) for n in range(8)), return_exceptions=True)

        assert [type(one) for one in told] == [errors.StoreUnavailable] * 8
        # Not each half of the batch anew.
        assert len(failed) <= 5
        assert asyncio.get_running_loop().time() - began < 20


async def test_no_pause_between_two_tries_outlasts_the_patience(
    served: Served, full: Callable[[float], list[object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "delays", lambda: repeat(3600.0))
    async with Client(served.url, served.token, patience=0.1) as client, asyncio.timeout(60):
        await client.register(double)
        full(float("inf"))

        with pytest.raises(errors.StoreUnavailable):
            await client.submit(double.bind(1))


async def test_a_token_that_can_not_be_had_for_a_moment_closes_no_client(treadle_server: Any) -> None:
    """Who waited for a result, and all others, were told that the client was closed."""
    failures: list[Exception] = []

    async def token() -> str:
        if failures:
            raise failures.pop()
        return str(treadle_server.token)

    async with Client(treadle_server.url, token, patience=20) as client:
        handle = await client.submit(double.bind(1))
        failures += [OSError("the vault is down")] * 3

        with pytest.raises(errors.WaitTimeout):
            await handle.result(2)

        assert not failures
        assert await handle.status() == "pending"
    async with Client(treadle_server.url, token, patience=0) as client:
        failures += [OSError("the vault is down")] * 9
        with pytest.raises(errors.ConnectionFailed, match=r"there is no token: .* OSError: the vault is down"):
            await client.handle(handle.id).result(30)
        assert client.is_open


async def test_a_request_fails_at_once_while_no_server_has_answered_yet_and_the_next_one_finds_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    async with asyncio.timeout(60), Client(f"http://127.0.0.1:{port}", "none", patience=3600) as client:
        for _ in range(2):
            with pytest.raises(errors.ConnectionFailed, match="no server answers"):
                await client.submit(double.bind(1))
            with pytest.raises(errors.ConnectionFailed, match="no server answers"):
                await client.jobs()

        async with serve(port=port, auth="none"):
            assert (await client.submit(double.bind(1))).submitted is not None
            assert (await client.jobs()).total == 1


async def test_a_token_from_a_function_that_is_not_async_is_refused_at_once() -> None:
    async with Client("http://127.0.0.1:1", lambda: "any") as client:  # type: ignore[arg-type,return-value]
        with pytest.raises(InvalidSetting, match=r"must be async, as in async def token\(\) -> str, not <function"):
            await client.jobs()


@pytest.mark.parametrize("patience", ["x", None, -1, float("nan"), True])
@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_a_patience_that_is_none_is_refused_where_it_is_written(kind: Any, patience: Any) -> None:
    with pytest.raises(ValueError, match="patience must be seconds or a timedelta, 0 or more, not "):
        kind("http://127.0.0.1:7420", token="any", patience=patience)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"room": "a b/"}, "'a b/' is not a room"),
        ({"room": 3}, "3 is not a room"),
        ({"token": 3}, "is a int, not a str"),
    ],
)
@pytest.mark.parametrize("kind", [Client, SyncClient])
def test_a_room_or_token_that_is_none_is_refused_where_it_is_written(kind: Any, wrong: Any, said: str) -> None:
    with pytest.raises(InvalidSetting, match=said):
        kind("http://127.0.0.1:7420", **wrong)
