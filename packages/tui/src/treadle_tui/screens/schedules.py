"""The schedules screen: when each submits its task, and the state of its last one."""

from typing import ClassVar

from treadle_tui.core.state.model import Dirty
from treadle_tui.core.state.schedules import KNOWN, ScheduleRow, schedule_rows
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.executor import ScheduleVerb
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.schedule_columns import SCHEDULE_COLUMNS
from treadle_tui.screens.list_screen import ListScreen


class Schedules(ListScreen[ScheduleRow]):
    """Every schedule; they can be paused, resumed and run from here."""

    SCOPE: ClassVar[Scope] = "schedules"
    COLUMNS = SCHEDULE_COLUMNS
    FILTERS: ClassVar[str] = "filter: room:lab job:@global:tasks:bill status:failed some text"
    FIELDS = KNOWN
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.SCHEDULES

    def update_rows(self) -> None:
        """Show the schedules that match the filter."""
        model = self.ctx.model
        table = model.schedules
        rows = schedule_rows(table.rows.values(), self.wanted)
        self.show_rows(rows)
        now = model.now()
        states = [row.state(now) for row in rows]
        counts = f"{len(rows):,}{self.of_all(table)}, {states.count('paused'):,} paused, {states.count('late'):,} late"
        self.tell_counts(table, "5 Schedules", counts, f"{self.ctx.keymap.cap('open')} opens the last task")

    def copied(self) -> str | None:
        """Return the schedule's name."""
        return None if self.row is None else self.row.item.name

    def offers(self, action: Action) -> bool:
        """Offer pause or resume by the schedule's state, and its last task if there is one."""
        if self.row is None:
            return super().offers(action)
        item = self.row.item
        means = {
            "pause-schedule": not item.paused,
            "resume-schedule": item.paused,
            "open": item.last_task_id is not None,
        }
        return means.get(action.name, True)

    def act_open(self) -> None:
        """Open the last task."""
        if self.row is not None and self.row.item.last_task_id is not None:
            self.ctx.go("task", self.row.item.last_task_id)

    def act_pause_schedule(self) -> None:
        """Pause the highlighted schedule."""
        self._act_on_it("pause")

    def act_resume_schedule(self) -> None:
        """Resume the highlighted schedule."""
        self._act_on_it("resume")

    def act_run_schedule(self) -> None:
        """Submit the highlighted schedule's task now."""
        self._act_on_it("run")

    def _act_on_it(self, verb: ScheduleVerb) -> None:
        if self.row is not None:
            self.show_report_of(self.ctx.executor.steer_schedule(verb, self.row.item.room_id, self.row.item.name))
