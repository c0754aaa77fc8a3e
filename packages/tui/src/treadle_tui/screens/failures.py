"""The failures screen: groups by error and place; a verb acts on all tasks of a group."""

from collections.abc import Sequence
from typing import ClassVar

from treadle.filters import ordered
from treadle.wire.amounts import counted
from treadle.wire.filters import TaskFilter
from treadle.wire.status import WAITING, Status
from treadle_tui.core.draw.text import Spans
from treadle_tui.core.state.failures import KNOWN, FailureRow, failure_rows
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Action, Verb
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_failures
from treadle_tui.core.views.failure_columns import FAILURE_COLUMNS
from treadle_tui.screens.list_screen import ListScreen


class Failures(ListScreen[FailureRow]):
    """Every group of failures; the tasks of a group are retried, resolved or cancelled together."""

    SCOPE: ClassVar[Scope] = "failures"
    COLUMNS = FAILURE_COLUMNS
    FILTERS: ClassVar[str] = "filter: error:ValueError job:@global:tasks:bill some text"
    FIELDS = KNOWN
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.FAILURES

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_failures(self.ctx.model, self.filter_text, self.ctx.glyphs, self.ctx.keymap)

    def update_rows(self) -> None:
        """Show the groups that match the filter."""
        table = self.ctx.model.failures
        rows = failure_rows(table.rows.values(), self.wanted)
        self.show_rows(rows)
        failed, retrying = (sum(getattr(row.item, name) for row in rows) for name in ("failed", "retrying"))
        capped = "  of the last 10,000 failed runs" if table.total_is_capped else ""
        groups, tasks = counted(len(rows), "group"), counted(failed, "task")
        counts = f"{groups}, {tasks} failed, {retrying:,} wait for another try{capped}"
        self.tell_counts(table, "7 Failures", counts, self._foot())

    def _foot(self) -> str:
        retry, cancel, settle = (self.ctx.keymap.cap(name) for name in ("resume", "cancel", "resolve"))
        verbs = "" if self.ctx.executor.hides_writes else f"; {retry}, {cancel} and {settle} act on the whole group"
        return f"{self.ctx.keymap.cap('open')} shows the tasks{verbs}"

    def copied(self) -> str | None:
        """Return a filter that finds the group's tasks."""
        return None if self.row is None else f"failure:{self.row.item.id}"

    def offers(self, action: Action) -> bool:
        """Offer only the verbs for which the group has tasks."""
        if self.row is None:
            return super().offers(action)
        item = self.row.item
        return bool({"resume": item.failed, "resolve": item.failed, "cancel": item.retrying}.get(action.name, True))

    def act_open(self) -> None:
        """Show the group's tasks, and mark it as looked at."""
        if self.row is not None:
            self.ctx.model.look_at_failure(self.row.item.id)
            self.ctx.go("view", f"job:* failure:{self.row.item.id}")

    def act_resume(self) -> None:
        """Retry the group's failed tasks."""
        self._act_on_all("resume", [Status.FAILED])

    def act_cancel(self) -> None:
        """Cancel the group's tasks that wait for a retry."""
        self._act_on_all("cancel", ordered(WAITING))

    def act_resolve(self) -> None:
        """Resolve the group's failed tasks as completed by hand."""
        self._act_on_all("resolve", [Status.FAILED])

    def _act_on_all(self, verb: Verb, states: list[Status]) -> None:
        if self.row is not None:
            self.steer_all(verb, TaskFilter(failure=self.row.item.id, status=states))
