"""The dashboard on a real server over a real socket."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
from textual.pilot import Pilot

from treadle.transport.bearer import Bearer
from treadle_server.testing import Served
from treadle_tui.app import Dashboard
from treadle_tui.core.live.feed import Feed
from treadle_tui.core.live.link import SessionLink
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.state.model import Model

JOB = "@global:modifiers:Rotate"


async def register(http: httpx.AsyncClient) -> None:
    body = {"category": "modifiers", "name": "Rotate", "schema": {}, "retain": True}
    (await http.put("/v1/rooms/@global/jobs", json=body)).raise_for_status()


@asynccontextmanager
async def up(model: Model, to: SessionLink) -> AsyncIterator[Pilot[None]]:
    """The dashboard, on a screen."""
    async with Dashboard(model, Feed(model, to), Connection(link=to)).run_test(size=(120, 36)) as pilot:
        yield pilot


def client(server: Served) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, headers=server.headers)


def link(server: Served) -> SessionLink:
    return SessionLink((server.url,), Bearer(lambda: server.token))


async def seen(pilot: Pilot[None], condition: Callable[[str], bool]) -> str:
    """Wait until the screen shows something, and return what it shows then."""
    shown = asyncio.Event()
    watching = pilot.app.set_interval(0.1, lambda: condition(text(pilot)) and shown.set())
    try:
        async with asyncio.timeout(60):
            await shown.wait()
    finally:
        watching.stop()
    return text(pilot)


def text(pilot: Pilot[None]) -> str:
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
