"""Each user's reads have a share of the connections; others' and the server's own find one."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.clients import client_at
from tests.engine.conftest import Shop
from tests.live.sockets import connected
from tests.waiting import until
from treadle_server.errors import TooManyRequests
from treadle_server.store import reader_shares
from treadle_server.store.connections import READERS
from treadle_server.store.reader_shares import asking
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

OF_ONE = READERS - 1


async def take_all(stack: AsyncExitStack, store: Any, user: str) -> None:
    """Have the user read on as many connections as are theirs, until the end of the stack."""
    with asking(user):
        for _ in range(OF_ONE):
            await stack.enter_async_context(store.read())


async def test_a_user_who_reads_too_much_at_once_waits_while_others_and_the_server_itself_read(shop: Shop) -> None:
    store = shop.engine.store

    async def read(user: str) -> None:
        with asking(user):
            async with store.read():
                pass

    async with AsyncExitStack() as stack:
        await take_all(stack, store, "alice")
        waiting = asyncio.ensure_future(read("alice"))
        await read("bob")
        async with store.read():
            pass
        assert not waiting.done()

    await waiting
    assert store._shares._shares == {}


async def test_a_read_that_waits_too_long_for_those_of_its_user_is_refused_with_what_to_do(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = shop.engine.store
    monkeypatch.setattr(reader_shares, "WAIT", 0)

    async with AsyncExitStack() as stack:
        await take_all(stack, store, "alice")
        with pytest.raises(TooManyRequests, match=r"4 of your reads .* send fewer") as refused, asking("alice"):
            await stack.enter_async_context(store.read())

    assert refused.value.retry_after == 1
    assert store._shares._shares == {}


async def test_a_user_has_one_share_over_http_and_the_socket(database_url: str) -> None:
    async with (
        serve(database_url) as served,
        client_at(served.url, served.headers) as client,
        connected(served) as socket,
        AsyncExitStack() as stack,
    ):
        store: Any = served.engine.store
        await take_all(stack, store, "admin")
        asked = asyncio.ensure_future(socket.refused("get", id="01890a5d-ac96-774b-bcce-b302099a8057"))
        got = asyncio.ensure_future(client.get("/v1/tasks"))
        await until(lambda: store._shares._shares["admin"].reads == OF_ONE + 2)

        await stack.aclose()
        assert (await asked, (await got).status_code) == ("task-not-found", 200)
