"""Feeds: observers' subscriptions, sent as a snapshot and then as deltas, at most ten times a second.

Two observers of the same thing share one view: it is read, compared and encoded once. A commit only marks the views
that it may have changed; the loop reads those that are due, and sends the rows that differ from what was sent last.
Windows of tasks are not read again but corrected, by another loop, which no read keeps waiting (docs/decisions/0021).
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from treadle.wire.frames import Push
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch
from treadle_server.errors import StoreUnavailable
from treadle_server.live.changes import Round
from treadle_server.live.corrections import Corrections
from treadle_server.live.metered import Metered
from treadle_server.live.task_windows import TasksView
from treadle_server.live.views import View, ViewRows
from treadle_server.operations.encode import dumps
from treadle_server.operations.portions import filled
from treadle_server.services.base import EngineService
from treadle_server.services.rates import STEP_SECONDS, Rates

log = logging.getLogger(__name__)

INTERVAL = 0.1
"""Seconds between two frames of a view."""

MOST_BYTES = 4 * 1024 * 1024
"""Most bytes of rows in one push; more are sent in several, so that no frame is larger than a client accepts."""

SHARE = 20
"""Views are read so rarely that reading takes at most a twentieth of the event loop's time, for all views together:
with a tenth for each, four views of twenty dashboards slowed a drain on PostgreSQL by a third.

Only the time of a read's own steps counts, 1.5 to 6 ms, not the 10 to 120 that it lasts in a drain: a tenth of those
made views up to six seconds old. The quicker of the last two reads counts: the first has statements to build.
"""

AT_ONCE = 3
"""Views that are read at once: they wait for the same turns. One connection is left for all else, such as a hello."""

POLL = 2.0
"""PostgreSQL: seconds after which everything is read again: another server's commits may not be reported here."""

RETRY = 2.0
"""Seconds until a view is read again when the store did not answer."""

Put = Callable[[bytes], None]


@dataclass(slots=True)
class Subscriber:
    """One subscription: its name, where its pushes go, and how many have been sent."""

    sub: str
    put: Put
    frame: int = 0

    def send(self, messages: list[tuple[Push, bytes]], behind: float) -> None:
        """Send pushes, numbered so that lost, repeated or reordered ones are noticed."""
        for push, body in messages:
            head: dict[str, object] = {"push": push, "sub": self.sub, "frame": self.frame}
            if behind:
                head["behind"] = behind
            if push == "delta":
                head["prev"] = self.frame - 1
            self.put(dumps(head)[:-1] + b"," + body)
            self.frame += 1


@dataclass(slots=True, eq=False)
class Feed:
    """A view, its rows as they were last sent, and its subscribers."""

    key: str
    view: View
    rows: ViewRows | None = None
    seq: int = 0
    subscribers: dict[tuple[int, str], Subscriber] = field(default_factory=dict)
    """Subscribers by (session's number, subscription's name)."""
    due_at: float = 0.0
    """The earliest time of the next read."""
    again_at: float | None = None
    """When it is read again even if nothing changed; None for never."""
    took: float = 0.0
    """Seconds that the last read lasted."""
    spent: float = 0.0
    """Seconds of the event loop's time that the last read took."""
    stale_since: float | None = None
    """The time of the earliest commit that it may not show, and that no read in progress covers (`read_for`)."""
    read_for: float | None = None
    """The value of `stale_since` when the read in progress began."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Record that the block's read covers everything committed so far, unless it fails."""
        self.read_for, self.stale_since = self.stale_since, None
        try:
            yield
        except BaseException:
            if self.read_for is not None:
                self.stale_since = self.read_for
            raise
        finally:
            self.read_for = None

    @property
    def window(self) -> TasksView | None:
        """Return the view if it is a window that commits correct."""
        return self.view if isinstance(self.view, TasksView) and self.view.is_corrected else None


class Feeds(EngineService):
    """All feeds of the server; as a service it reads and sends those that are due."""

    name = "feeds"
    everywhere = True

    def __init__(self, engine: Engine, rates: Rates) -> None:
        super().__init__(engine)
        self._rates = rates
        self._feeds: dict[str, Feed] = {}
        self._dirty: set[Feed] = set()
        self._windows: set[Feed] = set()
        """The feeds of corrected windows."""
        self.corrections = Corrections(self._windows, self._correct, self.lose)
        self._places = asyncio.Semaphore(AT_ONCE)
        self._polls = engine.store.is_shared
        self._polled_at = 0.0

    def on_commit(self, batch: Batch) -> None:
        """Mark the feeds that a commit may have changed."""
        # Another server's changes are only partly reported; each view is read at most ten times a second anyway.
        every, is_new = batch.is_foreign, False
        for feed in self._feeds.values():
            # A feed that is due only because time has passed is not marked as lacking anything.
            is_marked = feed in self._dirty and feed.stale_since is not None and feed.window is None
            if not is_marked and (every or feed.view.concerns(batch)):
                is_new = self._mark(feed) or is_new
        if is_new:
            self.wake()
        if self._windows and not every:
            self.corrections.on_commit(batch)
            for feed in self._windows if batch.shifted else ():
                if feed.window is not None and feed.window.is_shifted_by(batch) and feed.again_at is None:
                    feed.again_at = asyncio.get_running_loop().time() + (feed.window.again_in or 0.0)
                    self.wake()

    def _mark(self, feed: Feed) -> bool:
        """Mark a feed to be read when it is due; return whether it was not marked before."""
        if feed.window is not None:
            feed.window.outdate()
        is_new = feed not in self._dirty
        self._dirty.add(feed)
        if feed.stale_since is None:
            feed.stale_since = asyncio.get_running_loop().time()
        return is_new

    def behind(self, feed: Feed) -> float:
        """Return for how many seconds its observers may have lacked something that is committed."""
        since = [feed.stale_since, feed.read_for]
        if feed.window is not None:
            since.append(self.corrections.since)
        known = [one for one in since if one is not None]
        # Rounded to milliseconds, and at least one: zero means that nothing is lacking.
        return max(0.001, round(asyncio.get_running_loop().time() - min(known), 3)) if known else 0.0

    def lose(self) -> None:
        """Mark all feeds: something was committed, or may have been, that was not reported."""
        for feed in self._feeds.values():
            self._mark(feed)
        self.wake()

    def touch(self, topic: str) -> None:
        """Mark the feeds of a topic, because something changed that is not reported by commits."""
        for feed in self._feeds.values():
            if feed.view.topic == topic:
                self._mark(feed)
        self.wake()

    def _correct(self, feed: Feed, changed: Round) -> None:
        """Correct a window by a round of changes, and send the differences."""
        if (window := feed.window) is None:
            return
        try:
            rows = window.correct(changed)
        except Exception:
            # One failing view must not end the others.
            log.exception("feed %s could not be updated", feed.key)
            window.outdate()
            rows = None
        if rows is not None:
            self._tell(feed, rows, self._engine.hub.seq)
        if window.is_outdated and feed not in self._dirty and not feed.lock.locked():
            self._dirty.add(feed)
            self.wake()
        elif window.again_in is not None and feed.again_at is None and feed.subscribers:
            feed.again_at = asyncio.get_running_loop().time() + window.again_in
            self.wake()

    def _tell(self, feed: Feed, rows: ViewRows, seq: int) -> None:
        """Set the feed's rows, and send the differences to its observers."""
        before, feed.rows, feed.seq = feed.rows, rows, seq
        if before is None or not feed.subscribers:
            return
        delta, behind = _delta(feed, before, rows), self.behind(feed)
        for subscriber in list(feed.subscribers.values()):
            subscriber.send(delta, behind)

    async def open(self, key: str, view: Callable[[], View]) -> Feed:
        """Return the feed under `key`, read at least once; a new one gets the view that `view` makes.

        Raises `StoreUnavailable`.
        """
        while True:
            feed = self._feeds.get(key)
            if feed is None:
                feed = Feed(key, view())
                self._keep(feed)
            async with feed.lock:
                if self._feeds.get(key) is not feed:
                    # Its last observer left while this waited, and commits no longer mark it.
                    continue
                if feed.rows is None:
                    try:
                        async with self._places:
                            await self._read(feed)
                    except BaseException:
                        self._drop_if_unused(feed)
                        raise
                return feed

    def subscribe(self, feed: Feed, session: int, sub: str, put: Put) -> None:
        """Send `put` the snapshot of an opened feed, and from then on every delta, under the name `sub`."""
        assert feed.rows is not None
        if self._feeds.get(feed.key) is not feed:
            # Its last observer has just left, possibly this one, resubscribing; commits have not marked it since.
            self._keep(feed)
            self._mark(feed)
            self.wake()
        if feed.again_at is None and feed.view.again_in is not None:
            feed.again_at = asyncio.get_running_loop().time() + feed.view.again_in
            self.wake()
        subscriber = feed.subscribers[session, sub] = Subscriber(sub, put)
        subscriber.send(_snapshot(feed, feed.rows), self.behind(feed))

    def unsubscribe(self, feed: Feed, session: int, sub: str) -> None:
        """End a subscription; a feed without subscribers is dropped."""
        feed.subscribers.pop((session, sub), None)
        self._drop_if_unused(feed)

    def _keep(self, feed: Feed) -> None:
        self._feeds[feed.key] = feed
        if feed.window is not None:
            self._windows.add(feed)

    def _drop_if_unused(self, feed: Feed) -> None:
        if not feed.subscribers:
            self._dirty.discard(feed)
            self._windows.discard(feed)
            if not self._windows:
                self.corrections.clear()
            if self._feeds.get(feed.key) is feed:
                del self._feeds[feed.key]

    async def turn(self) -> float:
        """Read and send what is due; wait at most for the next step of the history, or for the poll."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        self._mark_overdue(now)
        if self._rates.roll():
            self._dirty.update(feed for feed in self._feeds.values() if feed.view.topic == "jobs")
        if self._polls and now - self._polled_at >= POLL:
            self._polled_at = now
            for feed in self._feeds.values():
                # Where servers report commits to each other, windows are read again only when something was missed.
                if feed.window is None or self._engine.hub.version_order is None:
                    self._mark(feed)
        await self._refresh_all(now)
        times = [feed.due_at for feed in self._dirty]
        times += [feed.again_at for feed in self._feeds.values() if feed.again_at is not None]
        next_at = min(times, default=float("inf"))
        return max(0.0, min(next_at - loop.time(), POLL if self._polls else STEP_SECONDS))

    def _mark_overdue(self, now: float) -> None:
        for feed in self._feeds.values():
            if feed.again_at is not None and feed.again_at <= now:
                feed.again_at = None
                self._dirty.add(feed)

    async def _refresh_all(self, now: float) -> None:
        due = [feed for feed in self._dirty if feed.due_at <= now]
        resting = sum(feed.due_at > now for feed in self._feeds.values())
        places = asyncio.Semaphore(AT_ONCE)

        async def refresh(feed: Feed) -> None:
            async with places:
                await self._refresh(feed, among=len(due) + resting)

        async with asyncio.TaskGroup() as group:
            for feed in due:
                group.create_task(refresh(feed), name=feed.key)

    async def _refresh(self, feed: Feed, *, among: int) -> None:
        self._dirty.discard(feed)
        async with feed.lock, self._places:
            if self._feeds.get(feed.key) is not feed:
                return
            try:
                await self._read(feed, among=among)
            except StoreUnavailable as error:
                log.warning("feed %s is waiting for the store: %s", feed.key, error.detail)
                self._hold_back(feed)
            except Exception:
                # One failing view must not end the others.
                log.exception("feed %s could not be read", feed.key)
                self._hold_back(feed)

    async def _read(self, feed: Feed, *, among: int = 1) -> None:
        """Read a feed, and send the differences; `among` is the number of feeds that share the time."""
        loop = asyncio.get_running_loop()
        seq, began = self._engine.hub.seq, loop.time()
        metered = Metered(self._rows_of(feed.view))
        with feed.reading():
            rows = await metered
        if feed.window is not None:
            # It may have been corrected, and that sent, while the connection was returned to the pool.
            rows = feed.window.last or rows
        self._tell(feed, rows, max(seq, feed.seq))
        ended = loop.time()
        # The database, which did the work, rests at least as long as the read lasted.
        rest = max(INTERVAL, min(feed.spent, metered.seconds) * SHARE * among, min(feed.took, ended - began))
        feed.due_at = ended + rest
        feed.took, feed.spent = ended - began, metered.seconds
        wanted = feed.view.again_in if feed.subscribers else None
        feed.again_at = None if wanted is None else ended + max(INTERVAL, wanted)
        if feed.window is not None and feed.window.is_outdated:
            self._dirty.add(feed)

    async def _rows_of(self, view: View) -> ViewRows:
        async with self._engine.store.read() as connection:
            return await view.read(connection)

    def _hold_back(self, feed: Feed) -> None:
        """Schedule another attempt after `RETRY` seconds."""
        feed.due_at = asyncio.get_running_loop().time() + RETRY
        self._dirty.add(feed)


def _snapshot(feed: Feed, rows: ViewRows) -> list[tuple[Push, bytes]]:
    """Return the snapshot's messages; rows that don't fit into the first follow as deltas."""
    parts = list(filled(rows.by_key.values(), MOST_BYTES, len)) or [[]]
    keys = iter(rows.by_key)
    sent: list[str] = []
    messages: list[tuple[Push, bytes]] = []
    for i, part in enumerate(parts):
        sent += [next(keys) for _ in part]
        order = sent if i and feed.view.ordered else None
        messages.append(("delta" if i else "snapshot", _body(feed, rows, part, gone=[] if i else None, order=order)))
    return messages


def _delta(feed: Feed, before: ViewRows, after: ViewRows) -> list[tuple[Push, bytes]]:
    """Return the differences, in one delta unless that is too large; nothing when there are none."""
    changed = [row for key, row in after.by_key.items() if before.by_key.get(key) != row]
    gone = [key for key in before.by_key if key not in after.by_key]
    moved = feed.view.ordered and list(before.by_key) != list(after.by_key)
    counted = _counts(before) != _counts(after)
    if not (changed or gone or moved or counted):
        return []
    # Removed rows and the order come last, when all rows that the order names have been sent.
    *first, last = list(filled(changed, MOST_BYTES, len)) or [[]]
    order = list(after.by_key) if moved else None
    messages = [_body(feed, after, part, gone=[], order=None) for part in first]
    return [("delta", body) for body in (*messages, _body(feed, after, last, gone=gone, order=order))]


def _body(feed: Feed, rows: ViewRows, part: list[bytes], *, gone: list[str] | None, order: list[str] | None) -> bytes:
    start: dict[str, object] = {"topic": feed.view.topic, "seq": feed.seq}
    if gone is not None:
        start["gone"] = gone
    if order is not None:
        start["order"] = order
    end = dumps(_counts(rows))[1:]
    return dumps(start)[1:-1] + b',"rows":[' + b",".join(part) + b"]," + end


def _counts(rows: ViewRows) -> dict[str, object]:
    """Return a push's members other than its rows."""
    counts: dict[str, object] = {"total": rows.total, "total_is_capped": rows.total_is_capped}
    if rows.ahead is not None:
        counts["ahead"], counts["ahead_is_capped"] = rows.ahead
        counts["is_partial"] = rows.is_partial
    return counts
