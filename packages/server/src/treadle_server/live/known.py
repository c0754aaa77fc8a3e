"""The known part of the list around a window: a range without gaps, corrected by changes."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from treadle.wire.frames import Window
from treadle_server.domain.tasks import Task
from treadle_server.live.changes import ReportedTask, Round
from treadle_server.store.read.matching import Matches
from treadle_server.store.read.orders import ORDERS, Rank, SortKey, rank_at, rank_of


class RankedTask(NamedTuple):
    """A task with its rank."""

    rank: Rank
    told: ReportedTask


class Known:
    """The matching tasks from the window's anchor up to the last one that is known, in the list's order.

    A window that is anchored before a task goes the other way: its far end is towards the list's head.
    """

    def __init__(
        self,
        wanted: Window,
        matches: Matches,
        at: SortKey | None,
        found: Iterable[ReportedTask],
        *,
        most: int,
        is_all: bool,
    ) -> None:
        """`most` is how many tasks are kept; `is_all` says that `found` has all matching ones."""
        self._order = wanted.order
        self._matches = matches
        self._most = most
        self.goes_back = at is not None and wanted.before is not None
        """Whether it goes from the anchor against the list's order."""
        self._near = None if at is None else rank_at(at, wanted.order)
        self._is_inclusive = wanted.first is not None
        rank = rank_of(wanted.order)
        by_id = {told.task.id: RankedTask(rank(told.task), told) for told in found}
        self.rows = sorted(by_id.values(), key=_rank)
        self._far = None if is_all or not self.rows else self.rows[0 if self.goes_back else -1].rank
        """The rank up to which everything is known; None means up to the list's end."""

    @property
    def is_all(self) -> bool:
        """Return whether everything up to the list's end is known."""
        return self._far is None

    def correct(self, changed: Round) -> list[ReportedTask]:
        """Apply a round of changes, and return the tasks that came in or were updated."""
        versions, gone = changed.versions, changed.gone
        kept: list[RankedTask] = []
        older: set[str] = set()
        for row in self.rows:
            task = row.told.task
            if task.id in gone:
                continue
            if (version := versions.get(task.id)) is None:
                kept.append(row)
            elif version < row.told.version:
                # The row was read in a newer version than the reported one.
                older.add(task.id)
                kept.append(row)
        coming = self._coming(changed, older)
        if coming or len(kept) != len(self.rows):
            self.rows = sorted([*kept, *coming], key=_rank) if coming else kept
            self._cut()
        return [row.told for row in coming]

    def _coming(self, changed: Round, older: set[str]) -> list[RankedTask]:
        """Return the rows that came into the known range, at most as many as are kept."""
        found: list[RankedTask] = []
        for number in self._segments():
            tasks, rank = changed.segment(self._order, number)
            start, end = self._bounds(tasks, rank)
            for i in range(end - 1, start - 1, -1) if self.goes_back else range(start, end):
                task = tasks[i]
                if self._matches(task) and task.id not in older and task.id not in changed.gone:
                    found.append(RankedTask(rank(task), changed.told(task)))
                    if len(found) == self._most:
                        return found
        return found

    def _segments(self) -> Iterable[int]:
        """Return the segments of the order that overlap the known range, from the anchor on."""
        last = len(ORDERS[self._order]) - 1
        near = 0 if self._near is None else self._near[0]
        if self.goes_back:
            return range(near, (0 if self._far is None else self._far[0]) - 1, -1)
        return range(near, (last if self._far is None else self._far[0]) + 1)

    def _bounds(self, tasks: Sequence[Task], rank: Callable[[Task], Rank]) -> tuple[int, int]:
        """Return the bounds of the slice of the sorted tasks that is in the known range."""
        near, far = self._near, self._far
        if self.goes_back:
            assert near is not None
            return 0 if far is None else bisect_left(tasks, far, key=rank), bisect_left(tasks, near, key=rank)
        begins = bisect_left if self._is_inclusive else bisect_right
        start = 0 if near is None else begins(tasks, near, key=rank)
        return start, len(tasks) if far is None else bisect_right(tasks, far, key=rank)

    def _cut(self) -> None:
        if len(self.rows) > self._most:
            self.rows = self.rows[-self._most :] if self.goes_back else self.rows[: self._most]
            self._far = self.rows[0 if self.goes_back else -1].rank

    def __iter__(self) -> Iterator[ReportedTask]:
        """Yield the tasks from the anchor on."""
        return (row.told for row in (reversed(self.rows) if self.goes_back else self.rows))


def _rank(row: RankedTask) -> Rank:
    return row.rank
