"""Keys of limits: the busiest ones, which are shown, and the idle ones, whose rows can be removed."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import orjson
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.domain.limits import BucketId, Limit, bucket_ids_of
from treadle_server.store.bound_lists import TEXT, is_among, is_same, rows_of
from treadle_server.store.tables import IN_LINE, limit_tokens, limits, tasks

MOST_SHOWN = 5
"""Most keys of a limit that are shown."""


@dataclass(slots=True)
class BucketUse:
    """The use of a bucket and what waits for it, and a task that knows its key's name."""

    used: int = 0
    waiting: int = 0
    is_capped: bool = False
    """Whether more wait than were counted."""
    of_run: int | None = None
    """The `seq` of a task with a run that counts against it."""
    of_line: str | None = None
    """The `limit_key` of a line that waits for it."""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """A key as it is shown."""

    key: str | None
    used: int
    waiting: int
    tokens: float | None = None
    """For a limit with a rate: how many there were at `tokens_at`. With `tokens_at` None it is full, and unused."""
    tokens_at: datetime | None = None
    waiting_is_capped: bool = False
    """Whether more wait than were counted."""


@dataclass(slots=True)
class LimitView:
    """A limit as it is shown."""

    limit: Limit
    used: int = 0
    waiting: int = 0
    is_capped: bool = False
    """Whether not all waiting tasks, or not all keys, were counted."""
    buckets: dict[int, BucketUse] = field(default_factory=dict)
    """The buckets that are in use or waited for, by number."""
    busiest: list[KeyUse] = field(default_factory=list)

    def bucket(self, number: int) -> BucketUse:
        """Return the use of a bucket, which is added if it is new."""
        return self.buckets.setdefault(number, BucketUse())

    @property
    def first(self) -> list[int]:
        """Return the busiest buckets, by waiting tasks and then by use."""
        order = sorted(self.buckets.items(), key=lambda one: (-one[1].waiting, -one[1].used, one[0]))
        return [number for number, _ in order[:MOST_SHOWN]]


async def name_busiest(connection: AsyncConnection, views: Collection[LimitView]) -> None:
    """Fill in the busiest keys of each limit, with the names from their tasks."""
    shown = {number: view for view in views for number in view.first}
    if not shown:
        return
    uses = [view.buckets[number] for number, view in shown.items()]
    names = await _names(connection, uses)
    tokens = await _tokens(connection, [number for number, view in shown.items() if view.limit.rate_count is not None])
    for number, view in shown.items():
        # A bucket whose task was edited since its run began has no name any more.
        if number in names:
            use, burst = view.buckets[number], view.limit.rate_burst
            left, at = tokens.get(number, (None if burst is None else float(burst), None))
            view.busiest.append(KeyUse(names[number], use.used, use.waiting, left, at, use.is_capped))


async def _names(connection: AsyncConnection, uses: Iterable[BucketUse]) -> dict[int, str | None]:
    """Return the names of the buckets' keys, from one task of each."""
    known = list(uses)
    found: list[tuple[str, str]] = []
    if lines := {use.of_line for use in known if use.of_line is not None}:
        given, line = rows_of("lines", TEXT)
        of_one = (
            select(tasks.c.limits)
            .where(
                is_same(tasks.c.limit_key, line),
                text(IN_LINE),
            )
            .limit(1)
            .scalar_subquery()
        )
        rows = await connection.execute(select(line, of_one).select_from(given), {"lines": lines})
        found += [(key, limits) for key, limits in rows if limits is not None]
    if seqs := {use.of_run for use in known if use.of_run is not None and use.of_line is None}:
        of_runs = select(tasks.c.limit_key, tasks.c.limits).where(is_among(tasks.c.seq, "seqs"))
        rows = await connection.execute(of_runs, {"seqs": seqs})
        found += [(key, limits) for key, limits in rows if key is not None]
    return {
        bucket_id.bucket: one["key"]
        for key, limits in found
        for bucket_id, one in zip(bucket_ids_of(key), orjson.loads(limits), strict=True)
    }


async def _tokens(
    connection: AsyncConnection, buckets: Collection[int]
) -> Mapping[int, tuple[float | None, datetime | None]]:
    if not buckets:
        return {}
    columns = (limit_tokens.c.bucket, limit_tokens.c.tokens, limit_tokens.c.filled_at)
    statement = select(*columns).where(is_among(limit_tokens.c.bucket, "buckets"))
    rows = await connection.execute(statement, {"buckets": buckets})
    return {bucket: (tokens, at) for bucket, tokens, at in rows}


MOST_LOOKED_AT = 2_000
"""Most buckets that one call checks."""

IDLE = timedelta(minutes=1)
"""How long a bucket must have been full to be idle, so that it is full by every server's reading of the clock."""


async def idle_buckets(
    connection: AsyncConnection, now: datetime, *, after: int | None
) -> tuple[list[BucketId], int | None]:
    """Return which buckets with numbers above `after` are full, and the last number checked; None when all were."""
    t, caps = limit_tokens.c, (limits.c.rate_count, limits.c.rate_seconds, limits.c.rate_burst)
    statement = select(t.limit_num, t.bucket, t.tokens, t.filled_at, *caps).join_from(
        limit_tokens, limits, t.limit_num == limits.c.num
    )
    statement = statement.where(t.opens_at.is_(None)).order_by(t.bucket).limit(MOST_LOOKED_AT)
    if after is not None:
        statement = statement.where(t.bucket > after)
    rows = (await connection.execute(statement)).all()
    found = [
        BucketId(num, bucket)
        for num, bucket, tokens, at, count, seconds, burst in rows
        if count is None or tokens + max(0.0, (now - IDLE - at).total_seconds()) * count / seconds >= burst
    ]
    return found, rows[-1].bucket if len(rows) == MOST_LOOKED_AT else None
