"""Feeds without a server: views that take long, and one that is forgotten while somebody waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from treadle_server.clock import SystemClock
from treadle_server.live import metered
from treadle_server.live.feeds import AT_ONCE, INTERVAL, Feeds
from treadle_server.live.metered import Metered
from treadle_server.live.views import ViewRows
from treadle_server.services.base import Health, supervise
from treadle_server.store.connections import READERS

pytestmark = pytest.mark.anyio


class Hands:
    """The time of the loop and of its thread, which pass by hand alone, however busy the machine is."""

    def __init__(self) -> None:
        self.of_loop = 100.0
        self.of_thread = 5.0

    def work(self, seconds: float) -> None:
        """Let the thread be busy for so long."""
        self.of_loop += seconds
        self.of_thread += seconds

    def wait(self, seconds: float) -> None:
        """Let the loop wait for so long."""
        self.of_loop += seconds


@pytest.fixture
async def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """The clock of the running loop, and what `Metered` reads, for tests in which nothing waits for a timer."""
    hands = Hands()
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: hands.of_loop)
    monkeypatch.setattr(metered, "thread_time", lambda: hands.of_thread)
    return hands


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


async def test_a_view_rests_after_two_slow_reads_and_not_after_one(hands: Hands) -> None:
    """One read may have been held up by the machine; a database that always takes long has as long a rest."""
    feeds, view = feeds_of_nothing(), Slow()
    view.go_on.clear()
    opening = asyncio.ensure_future(feeds.open("counts", lambda: view))
    await view.is_read.wait()
    hands.wait(0.3)
    view.go_on.set()
    feed = await opening
    rest_after_one = feed.due_at - hands.of_loop

    view.go_on.clear()
    view.is_read.clear()
    reading = asyncio.ensure_future(feeds._read(feed))
    await view.is_read.wait()
    hands.wait(0.3)
    view.go_on.set()
    await reading
    rest_after_two = feed.due_at - hands.of_loop

    assert rest_after_one == pytest.approx(INTERVAL)
    assert rest_after_two == pytest.approx(0.3)


class Busy(Slow):
    """A view that takes the event loop's own time."""

    def __init__(self, hands: Hands) -> None:
        super().__init__()
        self.hands = hands

    async def read(self, connection: Any) -> ViewRows:
        self.hands.work(0.05)
        return ViewRows()


async def test_views_that_wait_to_be_read_share_one_twentieth_of_the_loop_s_time(hands: Hands) -> None:
    feeds = feeds_of_nothing()
    feed = await feeds.open("counts", lambda: Busy(hands))
    others = [await feeds.open(f"counts {n}", lambda: Busy(hands)) for n in range(3)]
    await feeds._read(feed)
    alone = feed.due_at - hands.of_loop
    for one in (feed, *others):
        feeds.subscribe(one, 1, one.key, lambda _: None)
        one.due_at = 0.0

    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await feeds.turn()
    rests = [one.due_at - hands.of_loop for one in (feed, *others)]

    assert alone == pytest.approx(20 * 0.05)
    assert max(rests) == pytest.approx(4 * 20 * 0.05)


async def test_a_view_shares_its_time_with_those_that_rest_from_being_read(hands: Hands) -> None:
    """Else four that are due one after the other would have a twentieth each."""
    feeds = feeds_of_nothing()
    feed, *others = [await feeds.open(f"counts {n}", lambda: Busy(hands)) for n in range(4)]
    for one in (feed, *others):
        feeds.subscribe(one, 1, one.key, lambda _: None)
        one.due_at = hands.of_loop + 60
    await feeds._read(feed)
    feed.due_at = 0.0

    feeds.on_commit(SimpleNamespace(is_foreign=False))  # type: ignore[arg-type]
    await feeds.turn()

    assert feed.due_at - hands.of_loop == pytest.approx(4 * 20 * 0.05)


async def test_what_others_do_while_a_view_waits_is_not_counted_as_its_time(hands: Hands) -> None:
    feeds, view = feeds_of_nothing(), Slow()
    feed = await feeds.open("counts", lambda: view)

    async def others() -> None:
        hands.work(0.05)
        view.go_on.set()

    for _ in range(2):
        view.go_on.clear()
        async with asyncio.TaskGroup() as group:
            group.create_task(feeds._read(feed))
            group.create_task(others())

    assert feed.took == pytest.approx(0.05)
    assert feed.spent == 0
    assert feed.due_at - hands.of_loop == pytest.approx(INTERVAL)


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

    async def measured(work: Any) -> Any:
        return await Metered(work)

    with pytest.raises(ValueError, match="mine"):
        await measured(fails())
    waiting = asyncio.ensure_future(measured(waits()))
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


class Gate:
    """Views that are read until it is open, and how many of them at once."""

    def __init__(self) -> None:
        self.reading = self.most = self.reads = 0
        self.is_open = asyncio.Event()

    def view(self) -> Any:
        """Return a view that waits at the gate."""
        view = Slow()
        view.read = self._read  # type: ignore[method-assign]
        return view

    async def _read(self, _connection: Any) -> ViewRows:
        self.reads += 1
        self.reading += 1
        self.most = max(self.most, self.reading)
        await self.is_open.wait()
        self.reading -= 1
        return ViewRows({}, 0)


async def test_however_many_views_are_opened_one_of_the_connections_that_read_is_left_n3() -> None:
    """Ten thousand subscriptions of one user took all of them for minutes: nobody else was let in meanwhile."""
    feeds, gate = feeds_of_nothing(), Gate()
    opening = [asyncio.ensure_future(feeds.open(str(number), gate.view)) for number in range(20)]
    await _turns_of_the_loop()
    for feed in feeds._feeds.values():
        feeds._mark(feed)
    turning = asyncio.ensure_future(feeds.turn())
    await _turns_of_the_loop()
    gate.is_open.set()
    await asyncio.gather(*opening, turning)

    assert gate.most == AT_ONCE < READERS


async def test_a_view_that_its_last_observer_has_left_is_not_read_though_it_was_due() -> None:
    """Thousands that nobody looked at any more were read for minutes, before those that somebody waited for."""
    feeds, gate = feeds_of_nothing(), Gate()
    gate.is_open.set()
    opened = [await feeds.open(str(number), gate.view) for number in range(20)]
    for feed in opened:
        feeds.subscribe(feed, 1, feed.key, lambda _: None)
        feed.due_at = 0.0
        feeds._mark(feed)
    gate.is_open.clear()
    turning = asyncio.ensure_future(feeds.turn())
    await _turns_of_the_loop()

    for feed in opened:
        feeds.unsubscribe(feed, 1, feed.key)
    gate.is_open.set()
    await turning

    assert gate.reads == 20 + AT_ONCE


async def _turns_of_the_loop() -> None:
    """Let all go on that can."""
    for _ in range(50):
        await asyncio.sleep(0)
