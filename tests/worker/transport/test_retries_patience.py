"""No pause between two tries outlasts the patience: what is given up is given up in time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import repeat
from typing import Any

import httpx
import pytest

from tests.worker.fakes import echo, fake_server, session_to
from treadle.errors import ConnectionFailed
from treadle.tasks.content import Content
from treadle.transport import http, session
from treadle.transport.http import HttpChannel
from treadle.worker import uploads
from treadle.worker.uploads import Uploader

pytestmark = pytest.mark.anyio

LITTLE = 0.1
URL = "http://server.invalid"

Ask = Callable[[], Awaitable[Any]]


def refuse(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


@asynccontextmanager
async def by_http() -> AsyncIterator[Ask]:
    channel = HttpChannel((URL,), "any", patience=LITTLE, transport=httpx.MockTransport(refuse))
    yield lambda: channel.request("GET", "/v1/stats")
    await channel.close()


@asynccontextmanager
async def by_a_socket() -> AsyncIterator[Ask]:
    serving = fake_server(echo)
    async with session_to(await serving.__aenter__(), patience=LITTLE) as opened:
        await opened.call("first")
        await serving.__aexit__(None, None, None)
        yield lambda: opened.call("second")


@asynccontextmanager
async def by_an_upload() -> AsyncIterator[Ask]:
    uploader = Uploader((URL,), "any", mounts={"all://": httpx.MockTransport(refuse)}, patience=LITTLE)
    yield lambda: uploader.upload(("task", 0), Content(b"a", "a", "text/plain"))
    await uploader.close()


@pytest.mark.parametrize("asked", [by_http, by_a_socket, by_an_upload])
async def test_what_reaches_no_server_is_given_up_when_the_patience_is_over(
    monkeypatch: pytest.MonkeyPatch, asked: Callable[[], AbstractAsyncContextManager[Ask]]
) -> None:
    """It took up to five seconds longer, the whole pause to the next try."""
    for module in (http, session, uploads):
        monkeypatch.setattr(module, "delays", lambda: repeat(3600.0))

    async with asked() as ask, asyncio.timeout(60):
        with pytest.raises(ConnectionFailed):
            await ask()
