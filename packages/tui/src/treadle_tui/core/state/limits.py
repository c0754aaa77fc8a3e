"""Limits: how much of each is used, who waits for it, and which of its keys are busiest."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from treadle.wire.limits import LimitItem, LimitKey
from treadle.wire.tasks import TaskFilter
from treadle_tui.core.draw.format import since
from treadle_tui.core.draw.glyphs import LimitState
from treadle_tui.core.state.meaning import can_mean

_TOKEN = 1 - 1e-9
"""One token, less a tolerance for rounding errors."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The row of a limit, or of one of its keys beneath it."""

    item: LimitItem
    key: LimitKey | None = None
    """For a key's row, the key; otherwise the counter of a limit without keys, if it has one yet."""
    is_beneath: bool = False
    """Whether this is a key's row."""

    @property
    def counted(self) -> LimitItem | LimitKey:
        """Where the use and the waiting tasks are counted: the key for a key's row, otherwise the whole limit."""
        return self.key if self.is_beneath and self.key is not None else self.item

    @property
    def id(self) -> str:
        """The row's id."""
        return f"{self.item.id} {self.counted.key!r}" if isinstance(self.counted, LimitKey) else self.item.id

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        told = {"of_key": self.counted.model_dump(mode="json")} if self.is_beneath else {}
        return {**self.item.model_dump(mode="json"), **told}

    @property
    def has_keys(self) -> bool:
        """Whether the use is a sum over several keys, each of which has the whole limit to itself."""
        return not self.is_beneath and any(one.key is not None for one in self.item.busiest)

    def tokens(self, now: datetime) -> float | None:
        """Return how many claims the rate has room for; None without a rate, and for a sum over keys."""
        return None if self.has_keys else tokens(self.item, self.key, now)

    def state(self, now: datetime) -> LimitState:
        """Return whether there is room; for a limit with keys, "full" as soon as any key is full."""
        keys = self.item.busiest if self.has_keys else [self.key]
        return "full" if any(_is_full(self.item, one, now) for one in keys) else "open"


def tokens(item: LimitItem, key: LimitKey | None, now: datetime) -> float | None:
    """Return how many claims the rate leaves room for: the tokens that were left, and those refilled since."""
    if item.rate is None:
        return None
    if key is None or key.tokens is None or key.tokens_at is None:
        return float(item.rate.burst)
    passed = max(0.0, since(key.tokens_at, now) or 0.0)
    return min(float(item.rate.burst), key.tokens + passed * item.rate.count / item.rate.seconds)


def _is_full(item: LimitItem, key: LimitKey | None, now: datetime) -> bool:
    used = item.used if key is None else key.used
    left = tokens(item, key, now)
    return (item.concurrency is not None and used >= item.concurrency) or (left is not None and left < _TOKEN)


def limit_rows(items: Iterable[LimitItem], wanted: TaskFilter, folded: Collection[str] = ()) -> list[LimitRow]:
    """Return the limits that match a filter, those with the most waiting tasks first, each with its keys beneath it.

    Limits whose id is in `folded` are shown without their keys.
    """
    found = sorted((item for item in items if means(wanted, item)), key=_urgency)
    return [row for item in found for row in _lines(item, is_folded=item.id in folded)]


def _urgency(item: LimitItem) -> tuple[int, int, str, str]:
    return -item.waiting, -item.used, item.room_id, item.name


def _lines(item: LimitItem, *, is_folded: bool) -> Iterator[LimitRow]:
    if all(one.key is None for one in item.busiest):
        yield LimitRow(item, next(iter(item.busiest), None))
        return
    yield LimitRow(item)
    for one in () if is_folded else item.busiest:
        yield LimitRow(item, one, is_beneath=True)


KNOWN = {"room", "text"}
"""The fields of a filter that a limit can match."""


def means(wanted: TaskFilter, item: LimitItem) -> bool:
    """Return whether a limit matches a filter, by its room and by a text in its name or one of its keys.

    Everything else in a filter is about tasks, so a filter with such a part matches no limit.
    """
    said = (item.name, item.room_id, *(one.key for one in item.busiest if one.key is not None))
    return can_mean(wanted, KNOWN, said) and wanted.room in {None, item.room_id}
