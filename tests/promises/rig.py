"""A real server whose time the test turns by hand, and the users who speak to it over one of the transports."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import pytest

from tests.clients import client_at
from tests.conftest import FakeClock
from tests.live.sockets import Socket, connected
from tests.promises.over_http import HttpUser
from tests.promises.over_socket import SocketUser
from tests.promises.problems import told
from tests.promises.words import JOB, Task, User, Worker
from treadle_server.engine.engine import Engine
from treadle_server.services.promoter import Promoter
from treadle_server.services.sweeper import Sweeper
from treadle_server.testing import Served

Transport = Literal["http", "socket"]
LONGEST_TEST = 1e9
"""Seconds; a sweeper with this interval takes no advance of the clock for an outage."""

over_http = pytest.mark.parametrize("transport", ["http"], indirect=True)
"""Marks what exists over HTTP alone."""

over_socket = pytest.mark.parametrize("transport", ["socket"], indirect=True)
"""Marks what exists on the socket alone."""


class Rig:
    """One server, its superuser `root`, and its time."""

    root: User

    def __init__(self, served: Served, clock: FakeClock, transport: Transport, stack: AsyncExitStack) -> None:
        self.served = served
        self.clock = clock
        self.transport: Transport = transport
        self.sweeper = self.new_sweeper()
        self._promoter = Promoter(self.engine)
        self._stack = stack

    @property
    def engine(self) -> Engine:
        """Return the server's engine."""
        return self.served.engine

    def new_sweeper(self) -> Sweeper:
        """Return a sweeper that has not turned yet."""
        settings = self.served.settings
        return Sweeper(self.engine, interval=LONGEST_TEST, worker_timeout=settings.worker_timeout_seconds)

    async def user(self, name: str, *, superuser: bool = False) -> User:
        """Make a user without scopes."""
        made = told(await self.root.http.post("/v1/tokens", json={"name": name, "superuser": superuser}))
        return await self.enter(name, made["token"])

    async def enter(self, name: str, token: str) -> User:
        """Let somebody with a token in."""
        headers = {"Authorization": f"Bearer {token}"}
        http = client_at(self.served.url, headers)
        await self._stack.enter_async_context(http)
        if self.transport == "http":
            return HttpUser(name, token, http)
        socket = await self._stack.enter_async_context(connected(self.served, token))
        return SocketUser(name, token, http, self.served, socket, self._stack)

    async def observer(self, **wanted: Any) -> Socket:
        """Connect somebody who is told of every transition, of the room or job `wanted`."""
        socket = await self._stack.enter_async_context(connected(self.served))
        await socket.call("every", **wanted)
        return socket

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)

    def jump(self, seconds: float) -> None:
        """Set the time of day without letting time pass."""
        self.clock.jump(seconds)

    async def sweep(self) -> None:
        """Let the sweeper do its turn."""
        await self.sweeper.turn()

    async def promote(self) -> None:
        """Let the promoter do its turn."""
        await self._promoter.turn()


@asynccontextmanager
async def rigged(served: Served, clock: FakeClock, transport: Transport) -> AsyncIterator[Rig]:
    """Give a rig, whose sweeper has done the turn of the start."""
    async with AsyncExitStack() as stack:
        rig = Rig(served, clock, transport, stack)
        rig.root = await rig.enter("admin", served.token)
        await rig.sweep()
        yield rig


async def worker_of(rig: Rig, **details: Any) -> Worker:
    """Return a worker of the job, which is registered."""
    await rig.root.register_job()
    return await rig.root.register_worker(JOB, **details)


async def worked(rig: Rig, **options: Any) -> tuple[Worker, Task]:
    """Return a worker and the run that it has started, of a task with these options."""
    worker = await worker_of(rig)
    await rig.root.submit(**options)
    return worker, await worker.begin()
