"""A topic's rows, kept in step with the server by snapshots and deltas."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from treadle.values import brief
from treadle.wire.failures import FailureGroup
from treadle.wire.fields import TEN_YEARS
from treadle.wire.frames import MOST_SHOWN, Topic
from treadle.wire.schedules import ScheduleItem
from treadle.wire.targets import TargetItem
from treadle.wire.values import MOST_INTEGER

Row = TypeVar("Row")

Push = Mapping[str, Any]

Item = TypeVar("Item", FailureGroup, ScheduleItem, TargetItem)


@dataclass(frozen=True, slots=True)
class ItemRow(Generic[Item]):
    """A row about one item of the server."""

    item: Item

    @property
    def id(self) -> str:
        """The item's id."""
        return self.item.id

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        return self.item.model_dump(mode="json")


class Table(Generic[Row]):
    """The rows of one subscription at a time, by key and in order.

    A delta names the push that it follows. If that is not the last one applied, or if the result is inconsistent, the
    table is marked `torn`: something was lost, and only a new snapshot can repair it. A duplicate is ignored. `rows`
    and `order` are replaced by each push and never changed in place, so a reader can keep them.
    """

    def __init__(self, topic: Topic, *, key: str, read: Callable[[Any], Row], whole: bool = False) -> None:
        """`whole` means that the server sends all rows, up to `MOST_SHOWN`, in several pushes if there are many."""
        self.topic = topic
        self.rows: dict[str, Row] = {}
        self.order: list[str] = []
        self.offset = 0
        """How many rows of the whole list come before the first one here; for windows of tasks."""
        self.offset_is_capped = False
        """Whether the server stopped counting them, so that the offset is approximate."""
        self.total = 0
        self.total_is_capped = False
        self.is_partial = False
        """Whether rows may be missing, because the server searched only as many tasks as it does for a list."""
        self.generation = 0
        """How many snapshots have been applied."""
        self.ready = False
        """Whether a snapshot of the current subscription has come; until then, the rows are the previous one's."""
        self.torn = False
        self.outdated = False
        """Whether the rows come from an earlier connection and have not been confirmed yet."""
        self.refusal: str | None = None
        """Why the server refused the subscription."""
        self.known_at: float | None = None
        """Until when the rows are known to match the server's, by the monotonic clock; None before there are any."""
        self._key = key
        self._read = read
        self._sub: str | None = None
        self._seq = -1
        self._frame = -1
        self._countable = True
        self._is_whole = whole
        self._begun: int | None = None
        """The last push of a snapshot that is not complete yet."""
        self._coming: dict[str, Row] = {}
        """The rows of that snapshot so far: showing half of the queues, with half of their sums, would be wrong."""

    def expect(self, sub: str | None) -> None:
        """Take pushes of another subscription from now on; the rows stay until its snapshot comes."""
        self._sub = sub
        self.ready = False
        self.torn = False
        self.refusal = None
        self._begun = None

    def outdate(self) -> None:
        """Note that there is a new connection, possibly to another server."""
        self.outdated = bool(self.rows)

    def clear(self) -> None:
        """Forget the rows, because the next ones are about something else."""
        self.outdated = False
        self.rows, self.order, self.total, self.offset, self.ready = {}, [], 0, 0, False
        self.known_at = None
        self.offset_is_capped = False
        self.total_is_capped = False
        self.is_partial = False

    def know(self, steady: float, behind: Mapping[str, float]) -> None:
        """Note the server's report of how many seconds, at `steady`, each subscription was behind."""
        if self.ready and self._sub is not None:
            self._known(steady, behind.get(self._sub, 0.0))

    def _known(self, steady: float, behind: float) -> None:
        if not 0 <= behind <= TEN_YEARS:
            raise ValueError(f"behind: {brief(behind)} is no number of seconds")
        at = steady - behind
        self.known_at = at if self.known_at is None else max(self.known_at, at)

    def came(self, push: Push, steady: float) -> None:
        """Note that a push which left the server at `steady` was applied."""
        self._known(steady, push.get("behind", 0.0))

    def apply(self, push: Push) -> bool:
        """Apply a snapshot or delta; return whether anything changed. Pushes of other subscriptions are ignored."""
        if push["sub"] != self._sub:
            return False
        if push["push"] == "snapshot":
            # A subscription starts with its snapshot: a second one is a duplicate, older than what followed.
            if self.ready:
                return False
            self._coming = {}
        elif self.ready:
            return self._delta(push)
        elif self._begun is None or push.get("prev") != self._begun:
            # The start or a part of the snapshot was lost, or a part came twice.
            self.torn = True
            return False
        self._begun = int(push.get("frame", 0))
        self._coming |= {str(row[self._key]): self._read(row) for row in push["rows"]}
        if self._is_whole and len(self._coming) < min(push.get("total", 0), MOST_SHOWN):
            return False
        self._snapshot(push)
        return True

    def _snapshot(self, push: Push) -> None:
        self.rows, self._coming, self._begun = self._coming, {}, None
        self.order = list(self.rows)
        self._seq = int(push.get("seq", -1))
        self._frame = int(push.get("frame", 0))
        self._totals(push)
        self._countable = self.total == len(self.rows)
        self.ready, self.torn, self.outdated, self.refusal = True, False, False, None
        self.generation += 1

    def _delta(self, push: Push) -> bool:
        if not self._follows(push):
            return False
        rows = dict(self.rows)
        for row in push["rows"]:
            rows[str(row[self._key])] = self._read(row)
        for key in push.get("gone", ()):
            rows.pop(key, None)
        self.rows = rows
        self._totals(push)
        self._arrange(push.get("order"))
        return True

    def _follows(self, push: Push) -> bool:
        """Return whether a delta has to be applied, and record its number."""
        seq, frame = int(push.get("seq", self._seq)), int(push.get("frame", self._frame + 1))
        if frame <= self._frame:
            return False
        if seq < self._seq or int(push.get("prev", self._frame)) != self._frame:
            self.torn = True
            return False
        self._seq, self._frame = seq, frame
        return True

    def _totals(self, push: Push) -> None:
        self.total = _counted(push, "total", len(self.rows))
        self.total_is_capped = bool(push.get("total_is_capped", False))
        self.is_partial = bool(push.get("is_partial", False))
        ahead, self.offset_is_capped = _counted(push, "ahead", 0), bool(push.get("ahead_is_capped", False))
        # The count from before the server stopped counting is closer to the truth.
        self.offset = max(ahead, self.offset) if self.offset_is_capped else ahead

    def _arrange(self, order: Sequence[str] | None) -> None:
        if order is not None:
            self.order = [key for key in order if key in self.rows]
            self.torn = self.torn or len(self.order) != len(order)
            # Drop what left the window: it is of no use, and would pile up.
            self.rows = {key: self.rows[key] for key in self.order}
            return
        known = set(self.order)
        self.order = [key for key in self.order if key in self.rows]
        self.order += [key for key in self.rows if key not in known]
        if self._countable and self.topic != "tasks" and len(self.rows) != self.total:
            self.torn = True


def _counted(push: Push, name: str, otherwise: int) -> int:
    """Return a count of a push. Raises `ValueError` for one that is negative or beyond the protocol's integers."""
    count = int(push.get(name, otherwise))
    if not 0 <= count <= MOST_INTEGER:
        raise ValueError(f"{name}: {brief(count)} is no number of rows")
    return count
