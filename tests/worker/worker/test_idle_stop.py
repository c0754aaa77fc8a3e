"""A worker with `max_idle` ends by itself once there was nothing to run for so long."""

import asyncio
import logging
import math
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from treadle import Client, Worker, task
from treadle.worker.idle_stop import IdleStop
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


@task
async def double(n: int) -> int:
    return 2 * n


class Scene:
    """A worker at whose clock things happen, each at its second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.leases: Any = SimpleNamespace(held={})
        self.runner: Any = SimpleNamespace(ended_at=-math.inf)
        self.online = asyncio.Event()
        self.stops = asyncio.Event()
        self.idle = IdleStop(2, self.leases, self.online, self.stops)
        self._happens: dict[float, Callable[[], object]] = {}
        monkeypatch.setattr("treadle.worker.idle_stop.monotonic", lambda: self.now)
        monkeypatch.setattr("treadle.worker.idle_stop.asyncio", SimpleNamespace(sleep=self._sleep))

    async def _sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self._happens if at <= self.now]:
            until, self.now = self.now, at
            self._happens.pop(at)()
            self.now = until

    async def stopped_at(self, happens: dict[float, Callable[[], object]]) -> float:
        """Return at which second the worker was stopped."""
        self._happens = happens
        await self.idle.run(self.runner)
        assert self.stops.is_set()
        return self.now

    def open(self) -> None:
        self.online.set()
        self.idle.opened()

    def take(self) -> None:
        self.leases.held["a"] = object()

    def end(self) -> None:
        self.leases.held.clear()
        self.runner.ended_at = self.now


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(monkeypatch)


async def test_the_time_counts_from_when_a_server_has_taken_the_worker(scene: Scene) -> None:
    assert await scene.stopped_at({101.0: scene.open}) == 103.0


async def test_it_counts_anew_from_the_end_of_what_ran(scene: Scene) -> None:
    scene.open()

    def run() -> None:
        scene.take()
        scene.end()

    assert await scene.stopped_at({1.5: run}) == 3.5


async def test_nothing_counts_while_something_runs_however_long(scene: Scene) -> None:
    scene.open()
    scene.take()

    assert await scene.stopped_at({61.0: scene.end}) == 63.0


async def test_an_outage_of_the_server_does_not_count(scene: Scene) -> None:
    scene.open()

    assert await scene.stopped_at({1.0: scene.online.clear, 90.5: scene.open}) == 92.5


async def test_a_worker_runs_all_there_is_and_ends(
    server: Served, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "treadle.worker")
    handles = await client.submit_many([double.bind(n) for n in range(300)])
    worker = Worker([double], concurrency=2, url=server.url, token=server.token, max_idle=timedelta(seconds=0.5))

    async with asyncio.timeout(120):
        await worker.run_async()

    assert [await handle.result(timeout=60) for handle in handles] == [2 * n for n in range(300)]
    assert "there was nothing to run for 0.5 s: stopping the worker" in caplog.messages
    assert [item.name async for item in client.workers() if item.state != "offline"] == []


@pytest.mark.parametrize(("given", "shown"), [(0, "0"), (-1, "-1"), (math.nan, "nan"), ("soon", "'soon'")])
def test_a_time_that_is_none_is_refused(given: Any, shown: str) -> None:
    with pytest.raises(ValueError, match=f"max_idle must be seconds or a timedelta, .*, not {shown}"):
        Worker([double], max_idle=given)
