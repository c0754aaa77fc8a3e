"""Feeds without a server: views that take long, and one that is forgotten while somebody waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from treadle_server.clock import SystemClock
from treadle_server.live.feeds import INTERVAL, Feeds
from treadle_server.live.views import Rows
from treadle_server.services.base import Health, supervise

pytestmark = pytest.mark.anyio


class Slow:
    """A view whose next read goes on until it is let go."""

    topic = "counts"
    ordered = False
    again_in = None

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.is_read = asyncio.Event()
        self.found = {"a": b"{}"}

    def concerns(self, batch: Any) -> bool:
        return True

    async def read(self, connection: Any) -> Rows:
        self.is_read.set()
        await self.go_on.wait()
        return Rows(dict(self.found), len(self.found))


@asynccontextmanager
async def _no_store() -> AsyncIterator[None]:
    yield None


def feeds_of_nothing() -> Feeds:
    store = SimpleNamespace(dialect="sqlite", is_shared=False, read=_no_store)
    engine: Any = SimpleNamespace(store=store, hub=SimpleNamespace(seq=1))
    return Feeds(engine, SimpleNamespace(roll=lambda: False))  # type: ignore[arg-type]


async def test_a_view_rests_after_two_slow_reads_and_not_after_one() -> None:
    """One read may have been held up by the machine; a view that always takes long must not take all of the time."""
    feeds, view = feeds_of_nothing(), Slow()
    loop = asyncio.get_running_loop()
    view.go_on.clear()
    opening = asyncio.ensure_future(feeds.open("counts", lambda: view))
    loop.call_later(0.3, view.go_on.set)
    feed = await opening
    rest_after_one = feed.due_at - loop.time()

    view.go_on.clear()
    loop.call_later(0.3, view.go_on.set)
    await feeds._read(feed)
    rest_after_two = feed.due_at - loop.time()

    assert rest_after_one <= INTERVAL
    assert rest_after_two > 2


async def test_views_that_wait_to_be_read_share_one_tenth_of_the_time() -> None:
    feeds, view = feeds_of_nothing(), Slow()
    loop = asyncio.get_running_loop()
    feed = await feeds.open("counts", lambda: view)
    others = [await feeds.open(f"counts {n}", Slow) for n in range(3)]
    for one in (feed, *others):
        feeds.subscribe(one, 1, one.key, lambda _: None)

    async def rest() -> float:
        feed.took = 0.05
        view.go_on.clear()
        loop.call_later(0.05, view.go_on.set)
        await feeds._read(feed)
        return feed.due_at - loop.time()

    alone = await rest()
    feeds.heed(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    feeds._dirty.discard(feed)
    beside_three = await rest()

    assert alone <= 0.5
    assert 1 < beside_three <= 2


async def test_whoever_waits_for_a_feed_that_is_forgotten_meanwhile_gets_one_that_commits_mark_g7() -> None:
    feeds = feeds_of_nothing()
    view, sent = Slow(), asyncio.Event()
    first = await feeds.open("counts", lambda: view)
    feeds.subscribe(first, 1, "x", lambda _: None)
    running = asyncio.ensure_future(supervise(feeds, Health("feeds"), SystemClock()))
    view.go_on.clear()
    view.is_read.clear()
    feeds.heed(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await view.is_read.wait()

    waiting = asyncio.ensure_future(feeds.open("counts", lambda: view))
    await asyncio.sleep(0)
    feeds.unsubscribe(first, 1, "x")
    feeds.heed(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    view.go_on.set()
    second = await waiting

    assert second is not first
    feeds.subscribe(second, 2, "y", lambda _: sent.set())
    assert sent.is_set()
    view.is_read.clear()
    feeds.heed(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        await view.is_read.wait()
    running.cancel()
    await asyncio.wait([running])


async def test_who_watches_again_is_told_of_a_commit_that_came_just_before_g7() -> None:
    """The one observer of a view, which has missed a frame, asks for it anew; nothing is committed after that."""
    feeds, view, sent = feeds_of_nothing(), Slow(), asyncio.Event()
    feed = await feeds.open("counts", lambda: view)
    feeds.subscribe(feed, 1, "x", lambda _: None)
    feeds.heed(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    view.found = {"a": b"{}", "b": b"{}"}

    again = await feeds.open("counts", lambda: view)
    feeds.unsubscribe(feed, 1, "x")
    feeds.subscribe(again, 1, "x", lambda push: sent.set() if b'"delta"' in push else None)

    running = asyncio.ensure_future(supervise(feeds, Health("feeds"), SystemClock()))
    async with asyncio.timeout(60):
        await sent.wait()
    running.cancel()
