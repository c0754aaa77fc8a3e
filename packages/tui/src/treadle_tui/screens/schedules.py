"""The schedules: when each puts its task in, and what became of the last one."""

from typing import Any, ClassVar

from treadle_tui.core.actions import Scope
from treadle_tui.core.format import total
from treadle_tui.core.model import Dirty
from treadle_tui.core.pane import Pane
from treadle_tui.core.schedules import SCHEDULE_COLUMNS, ScheduleRow
from treadle_tui.core.steering import ScheduleVerb
from treadle_tui.core.text import Span
from treadle_tui.keys import bindings
from treadle_tui.screens.listing import Listing
from treadle_tui.screens.words import no_schedules
from treadle_tui.widgets.grid import Grid


class ScheduleGrid(Grid):
    """The schedules."""

    SCOPE: Scope = "schedules"
    BINDINGS = bindings("schedules")


class Schedules(Listing):
    """Every schedule; paused, resumed and run from here."""

    SCOPE: ClassVar[Scope] = "schedules"
    FILTERS: ClassVar[bool] = True
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.SCHEDULES

    def make(self) -> tuple[Pane[Any], Grid]:
        """Return the pane and its grid."""
        pane: Pane[ScheduleRow] = Pane(
            SCHEDULE_COLUMNS,
            self.desk.context,
            empty=lambda: no_schedules(self.desk.model, self.filter_text, self.desk.glyphs),
        )
        return pane, ScheduleGrid(pane, id="schedules")

    def settle(self) -> None:
        """Show the schedules that the filter means."""
        model = self.desk.model
        rows = model.schedule_rows(self.wanted)
        self.pane.rows.settle([row.item.id for row in rows], {row.item.id: row for row in rows})
        now = model.time.now()
        states = [row.state(now) for row in rows]
        table = model.schedules
        of_all = f" of {total(table.total, capped=table.total > len(table.rows))}" if self.filter_text else ""
        counts = f"  {len(rows):,}{of_all}, {states.count('paused'):,} paused, {states.count('late'):,} late"
        self.grid.entitle(
            (Span("5 Schedules", "title"), Span(counts, "dim")), (Span("enter opens the last task", "dim"),)
        )

    @property
    def _row(self) -> ScheduleRow | None:
        row: ScheduleRow | None = self.pane.rows.highlighted
        return row

    def copied(self) -> str | None:
        """Return the schedule's name."""
        return None if self._row is None else self._row.item.name

    def act_open(self) -> None:
        """Open the last task."""
        if self._row is not None and self._row.item.last_task_id is not None:
            self.post_message(self.Go("task", self._row.item.last_task_id))

    def act_pause_schedule(self) -> None:
        """Pause the highlighted schedule."""
        self._act_on_it("pause")

    def act_resume_schedule(self) -> None:
        """Let the highlighted schedule go on."""
        self._act_on_it("resume")

    def act_run_schedule(self) -> None:
        """Put the highlighted schedule's task in now."""
        self._act_on_it("run")

    def _act_on_it(self, verb: ScheduleVerb) -> None:
        if self._row is not None:
            self.run_worker(self._ask_for(verb, self._row.item.room_id, self._row.item.name))

    async def _ask_for(self, verb: ScheduleVerb, room: str, name: str) -> None:
        self.post_message(self.Done(await self.desk.steering.steer_schedule(verb, room, name)))
