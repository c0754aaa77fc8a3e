"""The targets screen: who holds each, why and since when, and who waits for it."""

from typing import ClassVar

from treadle.wire.amounts import counted
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.state.targets import KNOWN, TargetRow, target_rows
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.plan import does
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.target_columns import TARGET_COLUMNS
from treadle_tui.screens.list_screen import ListScreen


class Targets(ListScreen[TargetRow]):
    """Every target that is held or waited for; verbs act on the holder."""

    SCOPE: ClassVar[Scope] = "targets"
    COLUMNS = TARGET_COLUMNS
    FILTERS: ClassVar[str] = "filter: target:cam-1 room:lab status:paused some text"
    FIELDS = KNOWN
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.TARGETS | Dirty.WORKERS

    def update_rows(self) -> None:
        """Show the targets that match the filter."""
        table = self.ctx.model.targets
        rows = target_rows(table.rows.values(), self.wanted)
        self.show_rows(rows)
        held = sum(row.item.held for row in rows)
        waiting = sum(row.item.waiting for row in rows)
        counts = f"{len(rows):,}{self.of_all(table)}, {held:,} held, {counted(waiting, 'task')} waiting"
        self.tell_counts(table, "4 Targets", counts, "" if self.ctx.executor.hides_writes else "keys act on the holder")

    def copied(self) -> str | None:
        """Return the target's name."""
        row = self.row
        return None if row is None else row.item.name

    def offers(self, action: Action) -> bool:
        """Offer only verbs that do anything to the holder."""
        holder = None if self.row is None else self.row.holder
        return super().offers(action) and does(action.name, () if holder is None else [holder.status])

    def task_id(self) -> str | None:
        """Return the holder."""
        row = self.row
        return None if row is None or row.holder is None else row.holder.task_id

    def act_open(self) -> None:
        """Open the holder, or the next task in line for a free target."""
        row = self.row
        if row is not None and row.task_id is not None:
            self.ctx.go("task", row.task_id)
