"""Limits: how much of each is used, who waits for it, and which of its keys are worth a look."""

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
"""A token, but for what is lost in sums of parts."""


@dataclass(frozen=True, slots=True)
class LimitRow:
    """A limit's line, or beneath it one of its keys."""

    item: LimitItem
    key: LimitKey | None = None
    """What the limit counts without keys, or nothing yet; in a line beneath it, the key."""
    is_beneath: bool = False
    """Whether it is a key's line."""

    @property
    def counted(self) -> LimitItem | LimitKey:
        """What is used of it, and who waits: of all of the limit, or of the key."""
        return self.key if self.is_beneath and self.key is not None else self.item

    @property
    def id(self) -> str:
        """What tells it from the others."""
        return f"{self.item.id} {self.counted.key!r}" if isinstance(self.counted, LimitKey) else self.item.id

    def exported(self) -> dict[str, Any]:
        """Return what is written of it to a file."""
        told = {"of_key": self.counted.model_dump(mode="json")} if self.is_beneath else {}
        return {**self.item.model_dump(mode="json"), **told}

    @property
    def has_keys(self) -> bool:
        """Whether its use is the sum over keys, each of which has the limit for itself."""
        return not self.is_beneath and any(one.key is not None for one in self.item.busiest)

    def tokens(self, now: datetime) -> float | None:
        """Return how many claims there is room for; None without a rate, and for several keys at once."""
        return None if self.has_keys else tokens(self.item, self.key, now)

    def state(self, now: datetime) -> LimitState:
        """Return whether there is room; of a limit with keys, whether there is for each of them."""
        keys = self.item.busiest if self.has_keys else [self.key]
        return "full" if any(_is_full(self.item, one, now) for one in keys) else "open"


def tokens(item: LimitItem, key: LimitKey | None, now: datetime) -> float | None:
    """Return how many claims a key of the limit has room for by its rate: what there was, and what filled since."""
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
    """Return the limits that a filter means, those first for which most wait, each with its keys beneath it.

    Those whose id is `folded` have none beneath.
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


def means(wanted: TaskFilter, item: LimitItem) -> bool:
    """Return whether a filter means a limit, by its room and a text in its name or in one of its keys.

    All else is the tasks' own and not known here, so a filter with such a part means no limit.
    """
    said = (item.name, item.room_id, *(one.key for one in item.busiest if one.key is not None))
    return can_mean(wanted, {"room", "text"}, said) and wanted.room in {None, item.room_id}
