"""Feeds without a server: views that take long, and one that is forgotten while somebody waits for it."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from time import thread_time
from types import SimpleNamespace
from typing import Any

import pytest

from treadle_server.clock import SystemClock
from treadle_server.live.feeds import INTERVAL, Feeds
from treadle_server.live.metered import Metered
from treadle_server.live.views import ViewRows
from treadle_server.services.base import Health, supervise

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _no_others_garbage() -> Iterator[None]:
    """Times are told here: a collection of all that a thousand tests have left takes half a second."""
    gc.freeze()
    yield
    gc.unfreeze()


class Slow:
    """A view whose next read goes on until it is let go."""

    topic = "counts"
    ordered = False
    again_in: float | None = None

    def __init__(self) -> None:
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.is_read = asyncio.Event()
        self.found = {"a": b"{}"}

    def concerns(self, batch: Any) -> bool:
        return True

    async def read(self, connection: Any) -> ViewRows:
        self.is_read.set()
        await self.go_on.wait()
        return ViewRows(dict(self.found), len(self.found))


@asynccontextmanager
async def _no_store() -> AsyncIterator[None]:
    yield None


def feeds_of_nothing() -> Feeds:
    store = SimpleNamespace(dialect="sqlite", is_shared=False, read=_no_store)
    engine: Any = SimpleNamespace(store=store, hub=SimpleNamespace(seq=1))
    return Feeds(engine, SimpleNamespace(roll=lambda: False))  # type: ignore[arg-type]


async def test_a_view_rests_after_two_slow_reads_and_not_after_one() -> None:
    """One read may have been held up by the machine; a database that always takes long has as long a rest."""
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
    assert 0.25 < rest_after_two < 2


class Busy(Slow):
    """A view that takes the event loop's own time."""

    async def read(self, connection: Any) -> ViewRows:
        ends = thread_time() + 0.05
        while thread_time() < ends:
            pass
        return ViewRows()


async def test_views_that_wait_to_be_read_share_one_twentieth_of_the_loop_s_time() -> None:
    feeds = feeds_of_nothing()
    loop = asyncio.get_running_loop()
    feed = await feeds.open("counts", Busy)
    others = [await feeds.open(f"counts {n}", Busy) for n in range(3)]
    await feeds._read(feed)
    alone = feed.due_at - loop.time()
    for one in (feed, *others):
        feeds.subscribe(one, 1, one.key, lambda _: None)
        one.due_at = 0.0

    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await feeds.turn()
    rests = [one.due_at - loop.time() for one in (feed, *others)]

    assert 0.8 < alone <= 2
    assert 3 < max(rests) <= 6


async def test_a_view_shares_its_time_with_those_that_rest_from_being_read() -> None:
    """Else four that are due one after the other would have a twentieth each."""
    feeds = feeds_of_nothing()
    loop = asyncio.get_running_loop()
    feed, *others = [await feeds.open(f"counts {n}", Busy) for n in range(4)]
    for one in (feed, *others):
        feeds.subscribe(one, 1, one.key, lambda _: None)
        one.due_at = loop.time() + 60
    await feeds._read(feed)
    feed.due_at = 0.0

    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await feeds.turn()

    assert 3 < feed.due_at - loop.time() <= 6


async def test_what_others_do_while_a_view_waits_is_not_counted_as_its_time() -> None:
    feeds, view = feeds_of_nothing(), Slow()
    loop = asyncio.get_running_loop()
    feed = await feeds.open("counts", lambda: view)

    async def others() -> None:
        await Busy().read(None)
        view.go_on.set()

    for _ in range(2):
        view.go_on.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(feeds._read(feed))
            group.create_task(others())

    assert feed.spent < 0.02
    assert feed.due_at - loop.time() < 0.4


async def test_a_view_that_is_to_be_read_again_later_is_read_at_once_when_it_changed() -> None:
    feeds, view = feeds_of_nothing(), Slow()
    loop = asyncio.get_running_loop()
    feed = await feeds.open("counts", lambda: view)
    feeds.subscribe(feed, 1, "x", lambda _: None)
    view.again_in = 60.0
    await feeds._read(feed)
    assert feed.again_at is not None
    assert feed.again_at > loop.time() + 50
    view.is_read.clear()
    feed.due_at = 0.0

    waits = await feeds.turn()
    assert not view.is_read.is_set()
    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await feeds.turn()
    assert view.is_read.is_set()

    view.is_read.clear()
    feed.again_at = feed.due_at = 0.0
    await feeds.turn()
    assert view.is_read.is_set()
    assert 0 < waits <= 60


async def test_what_a_metered_coroutine_raises_and_is_interrupted_by_passes_through() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    is_interrupted = asyncio.Event()

    async def waits() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_interrupted.set()
        return "went on"

    async def metered(work: Any) -> Any:
        return await Metered(work)

    with pytest.raises(ValueError, match="mine"):
        await metered(fails())
    waiting = asyncio.ensure_future(metered(waits()))
    await asyncio.sleep(0)
    waiting.cancel()

    assert await waiting == "went on"
    assert is_interrupted.is_set()


async def test_whoever_waits_for_a_feed_that_is_forgotten_meanwhile_gets_one_that_commits_mark_g7() -> None:
    feeds = feeds_of_nothing()
    view, sent = Slow(), asyncio.Event()
    first = await feeds.open("counts", lambda: view)
    feeds.subscribe(first, 1, "x", lambda _: None)
    running = asyncio.ensure_future(supervise(feeds, Health("feeds"), SystemClock()))
    view.go_on.clear()
    view.is_read.clear()
    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await view.is_read.wait()

    waiting = asyncio.ensure_future(feeds.open("counts", lambda: view))
    await asyncio.sleep(0)
    feeds.unsubscribe(first, 1, "x")
    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    view.go_on.set()
    second = await waiting

    assert second is not first
    feeds.subscribe(second, 2, "y", lambda _: sent.set())
    assert sent.is_set()
    view.is_read.clear()
    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    async with asyncio.timeout(20):
        await view.is_read.wait()
    running.cancel()
    await asyncio.wait([running])


async def test_who_watches_again_is_told_of_a_commit_that_came_just_before_g7() -> None:
    """The one observer of a view, which has missed a frame, asks for it anew; nothing is committed after that."""
    feeds, view, sent = feeds_of_nothing(), Slow(), asyncio.Event()
    feed = await feeds.open("counts", lambda: view)
    feeds.subscribe(feed, 1, "x", lambda _: None)
    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    view.found = {"a": b"{}", "b": b"{}"}

    again = await feeds.open("counts", lambda: view)
    feeds.unsubscribe(feed, 1, "x")
    feeds.subscribe(again, 1, "x", lambda push: sent.set() if b'"delta"' in push else None)

    running = asyncio.ensure_future(supervise(feeds, Health("feeds"), SystemClock()))
    async with asyncio.timeout(60):
        await sent.wait()
    running.cancel()
