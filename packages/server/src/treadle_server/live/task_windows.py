"""Observers' windows of the task list: read once, and from then on corrected by what commits change.

A window knows a few more rows than it shows, so that a row that leaves has a successor. It is read again when it has
run out of these, when a pending task arrives and only the database knows what blocks it, when a change was missed, and
when its filter can't be evaluated in memory. Positions, the total, and the number of tasks before it are read at most
once a second.
"""

import asyncio
from itertools import islice
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.ids import TaskId, is_uuid
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch, Hub
from treadle_server.live.changes import ReportedTask, Round
from treadle_server.live.known import Known
from treadle_server.live.views import POSITION_SECONDS, View, ViewRows, awaited_targets, limited_lanes
from treadle_server.operations.encode import dumps, listed_data
from treadle_server.store.read import filters
from treadle_server.store.read import targets as read_targets
from treadle_server.store.read.matching import matcher
from treadle_server.store.read.orders import SortKey
from treadle_server.store.read.positions import positions
from treadle_server.store.read.targets import Blocked
from treadle_server.store.read.windows import ahead_of, anchor, partial_total, window

LEAST_RESERVE, MOST_RESERVE = 50, 500
"""Rows that are known beyond the window: doubled each time when they lasted for less than a second. The running tasks
of a drain, some 400, are then known completely, and the window need not be read again."""

RENEWED = 10.0
"""Seconds after which a heartbeat makes a window with its worker's runs be read again: no event reports renewed
leases."""


class FilterTotals:
    """The numbers of tasks that match filters, counted at most once a second for all windows with the same filter."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._known: dict[str, tuple[float, int, tuple[int, bool]]] = {}

    async def of(self, connection: AsyncConnection, wanted: TaskFilter) -> tuple[tuple[int, bool], bool]:
        """Return the total and whether it is capped; and whether nothing has been committed since it was counted."""
        now, seq = asyncio.get_running_loop().time(), self._hub.seq
        self._known = {key: one for key, one in self._known.items() if one[0] + POSITION_SECONDS > now}
        key = f"{wanted.model_dump_json()} {filters.visibility_of(wanted)}"
        if (known := self._known.get(key)) is not None:
            return known[2], known[1] == seq
        found = await filters.total(connection, wanted)
        self._known[key] = now, seq, found
        return found, True


class TasksView(View):
    """A window of the task list."""

    topic = "tasks"
    ordered = True

    def __init__(self, wanted: Window, totals: FilterTotals) -> None:
        self.is_outdated = True
        """Whether its rows have to be read again."""
        self._wanted = wanted
        self._totals = totals
        matches = matcher(wanted.filter)
        self.is_corrected = matches is not None and not wanted.offset
        """Whether commits can correct it: not with an offset, because the rows before it are not known."""
        self._matches = matches or (lambda _: False)
        one = wanted.filter.id
        self._one = TaskId(one) if self.is_corrected and one is not None and is_uuid(one) else None
        """The only task that it can show: clients that follow a task use such windows, possibly a thousand of them.

        They cost the server 490 us for each task of a drain of other tasks; skipping them made that immeasurable.
        """
        self._reserve = LEAST_RESERVE if self.is_corrected else 0
        self._known: Known
        """Set by the first read; until then the window is outdated."""
        self._missed: list[Round] | None = None
        """The changes during a read; None when none is in progress."""
        self._is_placed = False
        self._at: SortKey | None = None
        """The anchor's place at the time of the first read."""
        self._has_run_short = False
        self._read_at = self._numbered_at = float("-inf")
        self._total = (0, False)
        self._is_partial = False
        self._reached: int | None = None
        """How many tasks the list turned out to have, if none were at the window's offset."""
        self._ahead = (0, False)
        self._positions: dict[int, int] = {}
        self._blockers: dict[int, Blocked] = {}
        self._in_line: dict[str, _InLine] = {}
        self._targets: set[int] = set()
        """The targets that its rows wait for."""
        self._lines: set[int] = set()
        """The lanes in which shown tasks may wait for limits."""
        self._has_held = False
        """Whether a row may wait for the code of its own last run."""
        self._has_shifted = False
        """Whether limits have let other tasks through since it was last read."""
        self._shown: list[ReportedTask] = []
        self._passed_over: list[ReportedTask] = []
        """The tasks that were not shown at the last check because the writer was changing them."""
        self.last: ViewRows | None = None
        """The rows that it showed last."""

    def concerns(self, batch: Batch) -> bool:
        """Return whether it has to be read again after a commit."""
        if not self._targets.isdisjoint(batch.targets) or (self._has_held and batch.freed):
            return True
        if self.is_corrected:
            return bool(batch.workers) and self._was_renewed(batch)
        return self.is_shifted_by(batch) or batch.concerns(self._wanted.filter.job)

    def is_shifted_by(self, batch: Batch) -> bool:
        """Return whether limits let others through in lanes of shown tasks, which no change of a task reports."""
        if self._lines.isdisjoint(batch.shifted):
            return False
        left = self._numbered_at + POSITION_SECONDS - asyncio.get_running_loop().time()
        self.again_in, self._has_shifted = max(0.0, left), True
        return True

    def _was_renewed(self, batch: Batch) -> bool:
        if asyncio.get_running_loop().time() < self._read_at + RENEWED:
            return False
        beating = {worker.id for worker in batch.workers}
        return any(told.task.is_leased and told.task.worker_id in beating for told in self._shown)

    def outdate(self) -> None:
        """Make the next read fetch its rows again."""
        self.is_outdated = True

    async def read(self, connection: AsyncConnection) -> ViewRows:
        """Return the window's rows in order: read again if they are outdated, and counted if it is time."""
        self._has_shifted = False
        if self.is_outdated or not self.is_corrected or self._hides():
            await self._read_rows(connection)
        await self._read_numbers(connection)
        if self._has_shifted and self.again_in is None:
            self.again_in = POSITION_SECONDS
        if self.is_outdated and self.last is not None:
            # It is read again at once; until then rows are missing.
            return self.last
        return self._show()

    def correct(self, changed: Round) -> ViewRows | None:
        """Return the rows after a round of changes; None if it has none to show, or must be read first."""
        if self._missed is not None:
            self._missed.append(changed)
            return None
        if self.is_outdated:
            return None
        is_spared = self._one is not None and self._one not in changed.tasks and self._one not in changed.gone
        job = self._wanted.filter.job
        if self._may_stand_elsewhere(changed) if is_spared else job is None or job in changed.jobs:
            left = self._numbered_at + POSITION_SECONDS - asyncio.get_running_loop().time()
            self.again_in = max(0.0, left)
        if is_spared:
            return None
        self._apply(self._known, changed)
        return None if self.is_outdated else self._show()

    def _may_stand_elsewhere(self, changed: Round) -> bool:
        """Return whether a shown pending task is in a queue in which others have changed."""
        return any(told.is_pending and told.task.job_name in changed.jobs for told in self._shown)

    def _hides(self) -> bool:
        """Return whether a task has not been shown for long, because the commit that would report it has failed."""
        passed, self._passed_over = self._passed_over, []
        return any(row.told in passed and not row.told.is_current for row in self._known.rows) if passed else False

    def _apply(self, known: Known, changed: Round) -> None:
        coming = known.correct(changed)
        if any(one.is_pending and _may_be_blocked(one.task) for one in coming):
            self.is_outdated = True
        if len(known.rows) < self._wanted.limit and not known.is_all:
            self.is_outdated = self._has_run_short = True

    async def _read_rows(self, connection: AsyncConnection) -> None:
        now = asyncio.get_running_loop().time()
        if self._has_run_short and now - self._read_at < 1:
            self._reserve = min(2 * self._reserve, MOST_RESERVE)
        self._read_at, self._has_run_short = now, False
        self.is_outdated, self._missed = False, []
        try:
            if not self._is_placed:
                self._at, self._is_placed = await anchor(connection, self._wanted), True
            most = self._wanted.limit + self._reserve
            found = await window(connection, self._wanted.model_copy(update={"limit": most}), self._at)
            self._blockers = await read_targets.blocked_by(connection, found)
        except BaseException:
            self.is_outdated, self._missed = True, None
            raise
        self._targets = awaited_targets(found)
        self._has_held = any(task.blocked and task.has_run for task in found)
        self._is_partial, self._reached = found.is_partial, found.reached
        is_all = self.is_corrected and len(found) < most
        self._known = Known(self._wanted, self._matches, self._at, map(ReportedTask, found), most=most, is_all=is_all)
        missed, self._missed = self._missed, None
        for changed in missed:
            self._apply(self._known, changed.copy())

    async def _read_numbers(self, connection: AsyncConnection) -> None:
        now = asyncio.get_running_loop().time()
        if (left := self._numbered_at + POSITION_SECONDS - now) > 0:
            self.again_in = left
            return
        self.again_in, self._numbered_at = None, now
        shown = list(islice(self._known, self._wanted.limit))
        if self._known.goes_back:
            shown.reverse()
        is_new = True
        if self._one is None:
            self._total, is_new = await self._totals.of(connection, self._wanted.filter)
        # Tasks that the writer has changed since are already elsewhere in the list.
        first = next((i for i, told in enumerate(shown) if told.is_current), len(shown))
        found = [told.task for told in shown[first:]]
        before, is_capped = await ahead_of(connection, self._wanted, self._at, found, self._total[0])
        self._ahead = before if is_capped or self._at is None else before - first, is_capped
        self._positions = await positions(connection, found)
        if limited := [task for task in found if task.limit_key is not None]:
            # No change of a task reports whom a limit lets through next.
            blocked = await read_targets.blocked_by(connection, limited)
            asked = {task.seq for task in limited}
            self._blockers = {seq: one for seq, one in self._blockers.items() if seq not in asked} | blocked
        if not is_new:
            self.again_in = POSITION_SECONDS

    def _show(self) -> ViewRows:
        known = self._known
        shown: list[tuple[ReportedTask, bytes]] = []
        passed_over: list[ReportedTask] = []
        for told in known:
            if len(shown) == self._wanted.limit:
                break
            if (row := self._encoded(told)) is not None:
                shown.append((told, row))
            else:
                # The writer has changed it before it was ever shown; its commit will report it in a moment.
                passed_over.append(told)
        if passed_over and not self._passed_over:
            self._passed_over = passed_over
            self.again_in = POSITION_SECONDS if self.again_in is None else self.again_in
        if known.goes_back:
            shown.reverse()
        self._shown = [told for told, _ in shown]
        self._lines = limited_lanes(told.task for told in self._shown)
        rows = {str(told.task.id): row for told, row in shown}
        self._in_line = {task_id: one for task_id, one in self._in_line.items() if task_id in rows}
        total = self._total
        if self._is_partial:
            # The total may come from other tasks than were looked through in this order.
            total = partial_total(self._wanted, total[0], self._ahead[0] + len(rows), self._reached), True
            self._ahead = min(self._ahead[0], total[0]), self._ahead[1]
        elif known.is_all and self._at is None:
            total = len(known.rows), False
        self.last = ViewRows(rows, *total, self._ahead, self._is_partial)
        return self.last

    def _encoded(self, told: ReportedTask) -> bytes | None:
        seq = told.task.seq
        position = self._positions.get(seq) if told.is_pending else None
        blockers = self._blockers.get(seq) if told.is_pending else None
        if position is None and blockers is None:
            return told.encoded()
        before = self._in_line.get(told.task.id)
        if before is not None and before.told is told:
            if (before.position, before.blockers) == (position, blockers) or not told.is_current:
                return before.row
        elif not told.is_current:
            return told.encoded()
        row = dumps(listed_data(told.task, position, blockers))
        self._in_line[told.task.id] = _InLine(told, position, blockers, row)
        return row


class _InLine(NamedTuple):
    """A shown row with a position or blockers, as encoded for this window."""

    told: ReportedTask
    position: int | None
    blockers: Blocked | None
    row: bytes


def _may_be_blocked(task: Task) -> bool:
    """Return whether only the database can tell what blocks a task that became pending."""
    return task.target_num is not None or task.has_run
