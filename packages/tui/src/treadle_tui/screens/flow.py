"""A flow's screen: the tree of its tasks with their states, times and errors, and verbs for the whole flow."""

from collections.abc import Sequence
from typing import ClassVar

from treadle.errors import ConnectionFailed, ProblemError
from treadle.filters import ordered
from treadle.wire.filters import TaskFilter
from treadle.wire.flows import FlowView
from treadle.wire.status import Status
from treadle.wire.transitions import ADMITS
from treadle_tui.core.draw.text import Spans, clean
from treadle_tui.core.state.flow import FlowLines, FlowRow, flow_lines
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.verbs.action import Verb
from treadle_tui.core.verbs.flow_reader import FlowReader
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_flow
from treadle_tui.core.views.flow_columns import FLOW_COLUMNS, flow_foot, flow_title
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.list_screen import ListScreen

RERUN: tuple[TaskFilter, ...] = (
    TaskFilter(status=[Status.FAILED]),
    TaskFilter(status=[Status.CANCELLED], error="dependency-failed"),
)
"""The filters of `rerun failed`: the failed tasks come first, because the tasks cancelled with them wait for them."""


class Flow(ListScreen[FlowRow]):
    """Follows the flow while it is in front; verbs act on all of its tasks whose status allows it."""

    SCOPE: ClassVar[Scope] = "flow"
    COLUMNS = FLOW_COLUMNS
    EXPORTS: ClassVar[str] = "tasks"
    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES

    def __init__(self, ctx: ScreenContext, flow_id: str, *, start_at: str | None = None) -> None:
        """`start_at` is the task to highlight first."""
        super().__init__(ctx, start_at=start_at)
        self._flow_id = flow_id
        self._reader = FlowReader(ctx.feed, ctx.model, flow_id)
        self._refusal: str | None = None
        """Why the server refused the last read."""
        self._lines = FlowLines()
        self._drawn: tuple[FlowView | None, int] = (None, 0)
        """The answer, and the second, for which the lines were made."""

    def empty(self) -> Sequence[Spans]:
        """Return the text to show instead of rows."""
        return no_flow(self.ctx.model, self._refusal, self.ctx.keymap)

    # The tree.

    def draw(self, dirty: Dirty) -> None:
        """Draw the tree, and read the flow again if it is due."""
        super().draw(dirty)
        if self._reader.take_turn():
            self.run_worker(self._look())

    async def _look(self) -> None:
        """Read the flow, and draw it or the reason of a refusal."""
        try:
            await self._reader.look()
            self._refusal = None
        except ProblemError as refused:
            self._refusal = clean(str(refused), limit=200)
        except ConnectionFailed:
            return  # The banner shows it; the next connection will be asked again.
        # Not `self.draw`, which might read the flow again.
        super().draw(self.WATCHES)

    @property
    def is_stale(self) -> bool:
        """Whether the data is out of date, or the server refuses to update it."""
        return super().is_stale or (self._reader.view is not None and self._refusal is not None)

    def update_rows(self) -> None:
        """Show the tree as last read; while the server refuses it, run times stand still."""
        view, now = self._reader.view, self.ctx.model.now()
        is_drawn = view is self._drawn[0] and self._drawn[1] == int(now.timestamp())
        if view is not None and self._refusal is None and not is_drawn:
            self._drawn = view, int(now.timestamp())
            self._lines = flow_lines(view, now, self._reader.usual())
        self.show_rows(self._lines.rows)
        is_gone, hides_writes = self._reader.is_gone, self.ctx.executor.hides_writes
        foot = flow_foot(view, self._lines, refusal=self._refusal, is_gone=is_gone, read_only=hides_writes)
        self.grid.set_titles(flow_title(view, self.ctx.glyphs), foot)

    # Actions.

    def copied(self) -> str | None:
        """Return the task's id."""
        return None if self.row is None else self.row.task.id

    def act_open(self) -> None:
        """Open the highlighted task."""
        if self.row is not None:
            self.ctx.go("task", self.row.task.id)

    def act_back(self) -> None:
        """Go back to the previous screen."""
        self.ctx.go("back")

    def act_cancel_flow(self) -> None:
        """Cancel the flow's open tasks."""
        self._steer_flow("cancel", TaskFilter(status=ordered(ADMITS["cancel"])))

    def act_pause_flow(self) -> None:
        """Pause the flow's waiting and running tasks."""
        self._steer_flow("pause", TaskFilter(status=ordered(ADMITS["pause"])))

    def act_resume_flow(self) -> None:
        """Resume the flow's paused tasks."""
        self._steer_flow("resume", TaskFilter(status=[Status.PAUSED]))

    def act_rerun_failed(self) -> None:
        """Rerun the flow's failed tasks, and those that were cancelled because of them."""
        self._steer_flow("rerun", *RERUN)

    def _steer_flow(self, verb: Verb, *wanted: TaskFilter) -> None:
        self.steer_all(verb, *(one.model_copy(update={"flow": self._flow_id}) for one in wanted))
