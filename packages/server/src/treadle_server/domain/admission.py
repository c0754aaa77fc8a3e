"""Decides whether limits that reject have room for new tasks. Pure rules.

Such a limit accepts a task as long as what is in use, what waits and the task itself are within it. Only tasks that
could begin at once count as waiting: those that are due later, or wait for other tasks, wait for the limit when their
time comes.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from treadle.wire.amounts import counted
from treadle_server.domain.limits import Bucket, Named
from treadle_server.errors import LimitFull

SOON = 1.0
"""Seconds after which another try is worthwhile when nobody knows when a run will end."""


class Wanted(NamedTuple):
    """A task that is to be added."""

    named: Sequence[Named]
    is_due: bool
    """Whether it could begin at once."""


@dataclass(slots=True)
class Crowd:
    """A bucket of a limit that rejects, and the number and weight of the tasks that wait for it."""

    bucket: Bucket
    count: int = 0
    weight: int = 0

    def note(self, weight: int, count: int = 1) -> None:
        """Note that `count` more tasks of this weight wait; the weight is capped as the limit counts it."""
        self.count += count
        self.weight += count * self.bucket.limit.counted(weight)

    @property
    def total(self) -> int:
        """Return the weight in use and waiting."""
        return self.bucket.used + self.weight

    def excess(self, weight: int = 0, *, ahead: int = 0, count: int = 0) -> str | None:
        """Return in words why there is no room for one more task of `weight`, or None if there is.

        `ahead` is the weight of the tasks that the same request adds before it, and `count` their number.
        """
        limit = self.bucket.limit
        if limit.concurrency is not None and self.total + ahead + limit.counted(weight) > limit.concurrency:
            return (
                f"its concurrency is {limit.concurrency}, {self.bucket.used} of that is in use, {self.weight + ahead}"
                f" is waiting, and this needs {weight}"
            )
        if limit.rate_count is not None and self.count + count + 1 > self.bucket.tokens + 1e-9:
            waiting = self.count + count
            tokens = counted(int(self.bucket.tokens + 1e-9), "token")
            return f"it has {tokens}, and {counted(waiting, 'task')} {'waits' if waiting == 1 else 'wait'} for one"
        return None

    def opens_in(self, count: int) -> float:
        """Return the seconds after which another try is worthwhile, behind `count` tasks of the same request."""
        limit = self.bucket.limit
        missing = self.count + count + 1 - self.bucket.tokens
        return SOON if limit.rate_count is None or missing <= 0 else max(SOON, missing / limit.per_second)


@dataclass(slots=True)
class Admission:
    """What is known of the rejecting limits of all tasks that a batch is to add."""

    crowds: dict[int, Crowd] = field(default_factory=dict)
    """By bucket."""
    grown: set[int] = field(default_factory=set)
    """The buckets for which a task was added."""

    def __bool__(self) -> bool:
        return bool(self.crowds)

    def check(self, wanted: Iterable[Wanted]) -> None:
        """Raise `LimitFull` unless there is room for all of these, one after the other; nothing is noted."""
        ahead: Counter[int] = Counter()
        counts: Counter[int] = Counter()
        for task in wanted:
            found = [(one, crowd) for one in task.named if (crowd := self.crowds.get(one.bucket_id.bucket)) is not None]
            for one, crowd in found:
                bucket = one.bucket_id.bucket
                why = crowd.excess(one.weight, ahead=ahead[bucket], count=counts[bucket])
                if why is not None:
                    raise LimitFull(_full_message(one, why), retry_after=crowd.opens_in(counts[bucket]))
            for one, crowd in found if task.is_due else ():
                ahead[one.bucket_id.bucket] += crowd.bucket.limit.counted(one.weight)
                counts[one.bucket_id.bucket] += 1

    def add(self, named: Iterable[Named]) -> None:
        """Note that a task that could begin was added."""
        for one in named:
            if (crowd := self.crowds.get(one.bucket_id.bucket)) is not None:
                crowd.note(one.weight)
                self.grown.add(one.bucket_id.bucket)

    def is_passed(self, bucket: int, now: Crowd) -> bool:
        """Return whether a bucket exceeds its limit because of tasks that were not known when its own were admitted."""
        known = self.crowds[bucket]
        limit = now.bucket.limit
        if limit.concurrency is not None and limit.concurrency < now.total > known.total:
            return True
        return limit.rate_count is not None and now.bucket.tokens + 1e-9 < now.count > known.count


def _full_message(one: Named, why: str) -> str:
    key = "" if one.key is None else f" is full for {one.key!r}"
    return f"the limit {one.name!r} of room {one.room}{key or ' is full'}: {why}"
