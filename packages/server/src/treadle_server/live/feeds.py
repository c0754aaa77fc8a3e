"""Feeds: what observers subscribed to, as a snapshot and then as deltas, at most ten times a second.

Two observers of the same thing share one view: it is read, compared and encoded once. A commit only marks the views
that it may have changed; the loop reads those that are due, and sends the rows that differ from what was sent last.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from treadle_server.api.encode import dumps
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.errors import StoreUnavailable
from treadle_server.live.rates import STEP_SECONDS, Rates
from treadle_server.live.views import Rows, View

log = logging.getLogger(__name__)

INTERVAL = 0.1
"""Seconds between two frames of a view."""

SHARE = 10
"""A view is read so seldom that reading it takes at most a tenth of the time."""

POLL = 2.0
"""PostgreSQL: how often everything is read again, because another server's commits are not heard of here."""

RETRY = 2.0
"""Seconds until a view is read again when the store did not answer."""

Put = Callable[[bytes], None]


@dataclass(slots=True, eq=False)
class Feed:
    """A view, what was sent of it last, and to whom."""

    key: str
    view: View
    rows: Rows | None = None
    seq: int = 0
    subscribers: dict[tuple[int, str], Put] = field(default_factory=dict)
    """By (session, name of the subscription)."""
    due_at: float = 0.0
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


class Feeds:
    """All feeds of the server."""

    def __init__(self, engine: Engine, rates: Rates) -> None:
        self._engine = engine
        self._rates = rates
        self._feeds: dict[str, Feed] = {}
        self._dirty: set[Feed] = set()
        self._wake = asyncio.Event()
        self._polls = engine.store.dialect == "postgresql"

    def heed(self, batch: Batch) -> None:
        """Mark what a commit may have changed."""
        marked = [feed for feed in self._feeds.values() if feed not in self._dirty and feed.view.concerns(batch)]
        if marked:
            self._dirty.update(marked)
            self._wake.set()

    async def open(self, key: str, view: Callable[[], View]) -> Feed:
        """Return the feed under `key`, read at least once; a new one looks at what `view` makes.

        Raises `StoreUnavailable`.
        """
        feed = self._feeds.get(key)
        if feed is None:
            feed = self._feeds[key] = Feed(key, view())
        async with feed.lock:
            if feed.rows is None:
                try:
                    await self._read(feed)
                except BaseException:
                    self._drop_if_unused(feed)
                    raise
        return feed

    def subscribe(self, feed: Feed, session: int, sub: str, put: Put) -> None:
        """Send the snapshot, and from now on every delta."""
        assert feed.rows is not None
        self._feeds[feed.key] = feed
        feed.subscribers[session, sub] = put
        put(_head("snapshot", sub) + _snapshot(feed))

    def unsubscribe(self, feed: Feed, session: int, sub: str) -> None:
        """Send nothing more; a feed that nobody looks at is forgotten."""
        feed.subscribers.pop((session, sub), None)
        self._drop_if_unused(feed)

    def _drop_if_unused(self, feed: Feed) -> None:
        if not feed.subscribers:
            self._dirty.discard(feed)
            if self._feeds.get(feed.key) is feed:
                del self._feeds[feed.key]

    async def run(self) -> None:
        """Read and send for ever."""
        loop = asyncio.get_running_loop()
        polled_at = loop.time()
        while True:
            next_at = min((feed.due_at for feed in self._dirty), default=None)
            await self._pause(None if next_at is None else next_at - loop.time())
            self._mark_histories()
            now = loop.time()
            if self._polls and now - polled_at >= POLL:
                polled_at = now
                self._dirty.update(self._feeds.values())
            for feed in [feed for feed in self._dirty if feed.due_at <= now]:
                await self._refresh(feed)

    async def _pause(self, seconds: float | None) -> None:
        """Wait for a mark when nothing is due; the step of the history's clock is the longest wait."""
        if seconds is not None and seconds <= 0:
            return
        try:
            longest = POLL if self._polls else STEP_SECONDS
            async with asyncio.timeout(longest if seconds is None else min(seconds, longest)):
                await self._wake.wait()
        except TimeoutError:
            return
        self._wake.clear()

    def _mark_histories(self) -> None:
        if self._rates.roll():
            self._dirty.update(feed for feed in self._feeds.values() if feed.view.topic == "jobs")

    async def _refresh(self, feed: Feed) -> None:
        self._dirty.discard(feed)
        async with feed.lock:
            before = feed.rows
            try:
                await self._read(feed)
            except StoreUnavailable as error:
                log.warning("the feed %s waits for the store: %s", feed.key, error.detail)
                self._again(feed, RETRY)
                return
            except Exception:
                # One view that can't be read must not end the others.
                log.exception("the feed %s can't be read", feed.key)
                self._again(feed, RETRY)
                return
            if before is None or feed.rows is None or not feed.subscribers:
                return
            delta = _delta(feed, before, feed.rows)
            if delta is not None:
                for (_, sub), put in list(feed.subscribers.items()):
                    put(_head("delta", sub) + delta)

    async def _read(self, feed: Feed) -> None:
        loop = asyncio.get_running_loop()
        seq, began = self._engine.hub.seq, loop.time()
        async with self._engine.store.read() as connection:
            feed.rows = await feed.view.read(connection)
        feed.seq = seq
        ended = loop.time()
        feed.due_at = ended + max(INTERVAL, (ended - began) * SHARE)
        if feed.view.again_in is not None and feed.subscribers:
            self._again(feed, max(INTERVAL, feed.view.again_in))

    def _again(self, feed: Feed, seconds: float) -> None:
        feed.due_at = max(feed.due_at, asyncio.get_running_loop().time() + seconds)
        self._dirty.add(feed)


def _head(push: str, sub: str) -> bytes:
    return dumps({"push": push, "sub": sub})[:-1] + b","


def _tail(feed: Feed, rows: Rows) -> bytes:
    return dumps({"total": rows.total, "total_is_capped": rows.total_is_capped})[1:]


def _snapshot(feed: Feed) -> bytes:
    assert feed.rows is not None
    start = dumps({"topic": feed.view.topic, "seq": feed.seq})[1:-1]
    return start + b',"rows":[' + b",".join(feed.rows.by_key.values()) + b"]," + _tail(feed, feed.rows)


def _delta(feed: Feed, before: Rows, after: Rows) -> bytes | None:
    """Return what differs, or None when nothing does."""
    changed = [row for key, row in after.by_key.items() if before.by_key.get(key) != row]
    gone = [key for key in before.by_key if key not in after.by_key]
    moved = feed.view.ordered and list(before.by_key) != list(after.by_key)
    counted = (before.total, before.total_is_capped) != (after.total, after.total_is_capped)
    if not (changed or gone or moved or counted):
        return None
    start = dumps({"topic": feed.view.topic, "seq": feed.seq, "gone": gone})[1:-1]
    order = b',"order":' + dumps(list(after.by_key)) if moved else b""
    return start + b',"rows":[' + b",".join(changed) + b"]" + order + b"," + _tail(feed, after)
