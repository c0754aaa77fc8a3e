"""The main screen: the queues, and the highlighted queue's tasks."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.message import Message

from treadle import filters
from treadle.wire import bulk
from treadle.wire.filters import TaskFilter
from treadle.wire.status import Status
from treadle_tui.core.draw.text import Span
from treadle_tui.core.live.subscriptions import Want
from treadle_tui.core.state.marks import Marks, TaskRef
from treadle_tui.core.state.model import Dirty
from treadle_tui.core.state.queues import ALL_QUEUES, SORTS, QueueRow, arranged
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import MOVES
from treadle_tui.core.verbs.executor import FAILURES, failed
from treadle_tui.core.verbs.plan import Refusal, Report
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.core.views.empty_states import no_queues, no_tasks
from treadle_tui.core.views.pane import Pane
from treadle_tui.core.views.queue_columns import columns as queue_columns
from treadle_tui.core.views.queue_columns import queues_foot, queues_height
from treadle_tui.core.views.status_bar import span_words
from treadle_tui.core.views.task_columns import ORDERS
from treadle_tui.core.views.task_list import TaskList
from treadle_tui.screen_context import ScreenContext
from treadle_tui.screens.attention import ALERT_TOPICS
from treadle_tui.screens.base import BaseScreen
from treadle_tui.screens.export import ExportRequest
from treadle_tui.widgets.filter_line import FilterLine
from treadle_tui.widgets.grid import Grid, QueueGrid, TaskGrid

OF_ROW = frozenset({"mark", "copy", "pause-queue", "resume-queue"})
"""Actions that need a highlighted queue or task."""


class Main(BaseScreen):
    """The queues on top, the tasks beneath them, and the filter at the bottom."""

    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.QUEUES | Dirty.WORKERS | Dirty.TASKS | Dirty.TASK | Dirty.FAILURES

    @dataclass
    class Frozen(Message):
        """The server named all tasks that match a filter."""

        asked: tuple[str, str | None]
        frozen: bulk.Frozen

    def __init__(self, ctx: ScreenContext) -> None:
        super().__init__(ctx)
        self._sort = next(iter(SORTS))
        self._arranged: dict[str, QueueRow] | None = None
        self._arranged_by = self._sort
        self._has_tombstone = False
        self._is_wide = False
        """Whether queues are shown with their full names."""
        self._queues: Pane[QueueRow] = Pane(queue_columns(), ctx.cell_context, empty=lambda: no_queues(ctx.model))
        empty = partial(no_tasks, ctx.model, ctx.query, ctx.glyphs, ctx.keymap)
        self._list = TaskList(ctx.model, ctx.query, ctx.keymap, ctx.cell_context, empty)
        self._queue_grid = QueueGrid(self._queues, id="queues")
        self._task_grid = TaskGrid(self._list.pane, id="tasks")
        self._filter_line = FilterLine(ctx.filter_words())

    def body(self) -> ComposeResult:
        """Yield the panes and the filter line."""
        yield self._queue_grid
        yield self._task_grid
        yield self._filter_line

    def on_mount(self) -> None:
        """Start with the focus in the queues."""
        self.ctx.feed.want(*map(Want, ALERT_TOPICS))
        self._filter_line.put(self.ctx.query.text)
        self._begin_list()
        self._queue_grid.focus()

    @property
    def scope(self) -> Scope:
        """The scope of the focused pane."""
        return self.focused.SCOPE if isinstance(self.focused, QueueGrid | TaskGrid) else "everywhere"

    def chosen(self) -> Sequence[TaskRef]:
        """Return the marked tasks, or the highlighted one."""
        return self._list.chosen()

    def unsafe(self) -> Refusal | None:
        """Return why no verb may act on the highlighted row right now, or None if it may."""
        return self._list.unsafe()

    def offers(self, action: Action) -> bool:
        """Offer actions on a queue or task only if one is highlighted, and pause or resume by the queue's state."""
        queue = self._queues.rows.highlighted if self.scope == "queues" else None
        if queue is not None and action.name in {"pause-queue", "resume-queue"}:
            return queue.name != ALL_QUEUES and queue.job.paused is (action.name == "resume-queue")
        if action.name == "open" and self.scope == "tasks":
            return self._list.rows.cursor is not None
        return action.name not in OF_ROW or self.copied() is not None

    def exported(self) -> ExportRequest:
        """Return what `export` writes: the queues, the marked tasks, or the whole list of tasks."""
        if self.scope == "queues":
            rows = self._queues.rows
            queues = (rows.rows[key] for key in rows.keys if key != ALL_QUEUES)
            return ExportRequest(rows=tuple(queue.exported() for queue in queues), what="queues")
        if self._list.marks:
            return super().exported()
        return ExportRequest(filter=self.ctx.query.filter, order=self.ctx.query.order)

    def copied(self) -> str | None:
        """Return the task's id or the queue's name."""
        if self.scope == "queues":
            return None if self.ctx.query.job == ALL_QUEUES else self.ctx.query.job
        task = self._list.rows.highlighted
        return task.id if task is not None else None

    # Drawing.

    def draw(self, dirty: Dirty) -> None:
        """Draw the panes that changed."""
        if dirty & (Dirty.QUEUES | Dirty.WORKERS | Dirty.LINK):
            self._draw_queues()
        if dirty & (Dirty.TASKS | Dirty.TASK | Dirty.LINK):
            self._draw_tasks()
        self._set_titles()

    def draw_ages(self) -> None:
        """Update the ages."""
        if self.ctx.query.reevaluate():
            self._want()
        self._follow_tombstone()
        self._queue_grid.redraw()
        self._task_grid.redraw()
        self._set_titles()
        self._filter_line.notice(self.ctx.notice())

    def _draw_queues(self) -> None:
        self._choose_queue_columns()
        rows = self.ctx.model.queue_rows()
        if rows is not self._arranged or self._sort != self._arranged_by:
            self._arrange(rows)
        self._queue_grid.styles.height = queues_height(self._queues.rows.total, self.size.height)
        self._queue_grid.rows_changed()
        self._follow_queue()

    def _arrange(self, rows: dict[str, QueueRow]) -> None:
        """Sort the queues; called only when the rows or the order have changed."""
        self._arranged, self._arranged_by = rows, self._sort
        lines = arranged(rows.values(), self._sort, self.ctx.model.every_queue())
        begins = self._queues.rows.cursor is None
        self._queues.rows.update(list(lines), lines)
        if begins and rows and not (self.ctx.query.begins_everywhere and self._queues.rows.find(ALL_QUEUES)):
            # Start at the queue with the most work; from then on the user moves the cursor.
            self._queues.rows.find(max(lines, key=lambda key: -1 if key == ALL_QUEUES else rows[key].pending))

    def _draw_tasks(self) -> None:
        if self._list.update():
            self._want()
        self._follow_tombstone()
        self._task_grid.rows_changed()

    def _follow_tombstone(self) -> None:
        """Subscribe to a highlighted task that left the list, so that its current state is shown."""
        key = self._list.tombstone
        if key is not None:
            self.ctx.feed.want(Want("task", task_id=key))
            self._list.remember()
        elif self._has_tombstone:
            self.ctx.feed.drop("task")
        self._has_tombstone = key is not None

    def _set_titles(self) -> None:
        ctx = self.ctx
        foot = queues_foot(ctx.keymap, sort=self._sort, charts=span_words(ctx.model))
        self._queue_grid.set_titles(ctx.aged((Span("1 Queues", "title"),), "counts", "jobs", "workers"), foot)
        first = self._task_grid.scroll_offset.y
        title = self._list.title(first, ctx.glyphs)
        self._task_grid.set_titles(self.ctx.aged(title, "tasks"), self._list.footing(first, self._task_grid.page))
        self.show_keys()

    # Actions.

    def act(self, name: str) -> None:
        """Pass moves to the focused pane."""
        if name in MOVES and isinstance(self.focused, Grid):
            self.focused.move(name)
        else:
            super().act(name)

    def on_grid_moved(self, event: Grid.Moved) -> None:
        """Show the highlighted queue's tasks."""
        if event.grid is self._queue_grid:
            self._follow_queue()
        else:
            self._list.scrolled(self._task_grid.scroll_offset.y)
            self._follow_tombstone()
        self._set_titles()

    def on_grid_seen(self, event: Grid.Seen) -> None:
        """Load what comes into sight."""
        if event.grid is self._task_grid and self._list.look(event.first, event.height):
            self._want()
        self._set_titles()

    def act_open(self) -> None:
        """Go from a queue to its tasks, or from a task to its screen."""
        if self.scope == "queues":
            self.focus_pane("tasks")
        elif self._list.rows.cursor is not None:
            self.ctx.go("task", self._list.rows.cursor)

    def act_back(self) -> None:
        """Clear the marks, or the filter, or go up to the queues."""
        if self._list.marks:
            self._list.marks.clear()
            self._redraw_tasks()
        elif self.ctx.query.text:
            self.narrow("")
        else:
            self.focus_pane("queues")

    def act_mark(self) -> None:
        """Mark the task and move to the next."""
        if self._list.rows.highlighted is not None:
            self._list.marks.turn(self._list.rows.highlighted)
        self._task_grid.move("down")

    def act_mark_all(self) -> None:
        """Mark every task that matches the filter, or none; the server names those that are not loaded."""
        if not self._list.mark_loaded():
            self.open_after(self._freeze(), group="mark")
        self._redraw_tasks()

    @property
    def marks(self) -> Marks:
        """The marked tasks, as last seen."""
        return self._list.marks

    async def _freeze(self) -> None:
        asked = self.ctx.query.asked
        try:
            frozen = await self.requests.freeze(self.ctx.query.filter, self.ctx.query.order)
        except FAILURES as error:
            self.post_message(self.Reported(failed("mark all", str(error))))
        else:
            self.post_message(self.Frozen(asked, frozen))

    def on_main_frozen(self, event: Frozen) -> None:
        """Mark the tasks that the server named, unless the list has changed meanwhile."""
        if event.asked != self.ctx.query.asked:
            return
        self._list.marks.add(event.frozen.items)
        if event.frozen.is_capped:
            text = f"marked only the first {len(event.frozen.items):,}: the most that can be marked at once"
            self.tell(Report(text, ok=False))
        self._redraw_tasks()

    def act_freeze(self) -> None:
        """Freeze the list, or let it continue."""
        self._list.toggle_frozen()
        self._draw_tasks()
        self._set_titles()

    def act_follow(self) -> None:
        """Keep the highlight on the first row, or on its current task."""
        self._list.toggle_follow()
        self._task_grid.rows_changed()
        self._task_grid.reveal()
        self._set_titles()

    def _redraw_tasks(self) -> None:
        self._task_grid.redraw()
        self._set_titles()

    def act_sort(self) -> None:
        """Switch to the pane's next sort order."""
        names = list(self.orders())
        present = self._sort if self.scope == "queues" else self.ctx.query.order
        self.with_sort(names[(names.index(present) + 1) % len(names)])

    def orders(self) -> Iterable[str]:
        """Return the sort orders of the focused pane."""
        return SORTS if self.scope == "queues" else ORDERS

    def with_sort(self, name: str) -> None:
        """Sort the focused pane by one of its orders."""
        if name not in self.orders():
            self.tell(Report(f'unknown order "{name}": use one of {", ".join(self.orders())}', ok=False))
        elif self.scope == "queues":
            self._sort = name
            self._draw_queues()
        else:
            self.ctx.query.take_order(next(order for order in ORDERS if order == name))
            self._begin_list()
        self._set_titles()

    def act_wide(self) -> None:
        """Show full names or payloads at the cost of other columns, or all columns again."""
        if self.scope == "tasks":
            self._list.wide = not self._list.wide
            self._list.choose_columns()
            self._redraw_tasks()
            return
        self._is_wide = not self._is_wide
        self._draw_queues()

    def _choose_queue_columns(self) -> None:
        names = self.ctx.model.queue_rows() if self._is_wide else ()
        self._queues.columns = queue_columns(self.ctx.model.span, wide=max(map(len, names), default=int(self._is_wide)))

    def act_pause_queue(self) -> None:
        """Pause the highlighted queue."""
        self._pause_queue(paused=True)

    def act_logs(self) -> None:
        """Show the merged logs of the highlighted queue or of the listed tasks."""
        job = None if self._queues.rows.cursor == ALL_QUEUES else self._queues.rows.cursor
        wanted = TaskFilter(job=job) if self.scope == "queues" else self.ctx.query.filter
        self.ctx.go("logs", filters.write(wanted))

    def act_retry_failed(self) -> None:
        """Retry the failed tasks of the highlighted queue."""
        job = self._queues.rows.cursor
        if job is not None:
            self.steer_all("resume", TaskFilter(job=None if job == ALL_QUEUES else job, status=[Status.FAILED]))

    def act_resume_queue(self) -> None:
        """Resume the highlighted queue."""
        self._pause_queue(paused=False)

    def _pause_queue(self, *, paused: bool) -> None:
        if self._queues.rows.cursor == ALL_QUEUES:
            self.tell(Report("queues are paused and resumed one at a time: go to one of them", ok=False))
        elif self._queues.rows.cursor is not None:
            self.show_report_of(self.ctx.executor.pause_queue(self._queues.rows.cursor, paused=paused))

    # The filter.

    def act_filter(self) -> None:
        """Focus the filter line, in time for the very next key."""
        self._filter_line.edit()

    def focus_pane(self, name: str) -> None:
        """Focus the queues or the tasks at once, so that a key typed ahead doesn't act on the previous pane."""
        self.set_focus(self._queue_grid if name == "queues" else self._task_grid)

    def select(self, job: str) -> None:
        """Highlight a queue."""
        self._queues.rows.find(job)
        self._follow_queue()
        self._queue_grid.rows_changed()
        self.focus_pane("queues")
        self._set_titles()

    def on_filter_line_left(self) -> None:
        """Focus the filtered list."""
        self.focus_pane("tasks")

    def on_filter_line_submitted(self, event: FilterLine.Submitted) -> None:
        """Apply the filter, or show what is wrong with it."""
        self.narrow(event.text)

    def narrow(self, text: str) -> None:
        """Show the tasks that match a filter; an invalid one changes nothing."""
        try:
            self.ctx.query.narrow(text)
        except filters.FilterError as error:
            self.tell(Report(str(error), ok=False))
            return
        self.ctx.clear_error()
        self._filter_line.put(text)
        self._begin_list()
        self.draw_ages()
        self.focus_pane("tasks")

    def narrow_everywhere(self, text: str) -> None:
        """Show the matching tasks of every queue, unless the filter names one."""
        self.select(ALL_QUEUES)
        self.narrow(text)

    def _follow_queue(self) -> None:
        if self.ctx.query.select(self._queues.rows.cursor):
            self._begin_list()

    def _begin_list(self) -> None:
        self._list.begin(here=self._task_grid.has_focus)
        self._task_grid.rows_changed()
        self.ctx.feed.drop("tasks")
        self._want()

    def _want(self) -> None:
        if (want := self.ctx.query.want()) is not None:
            self.ctx.feed.want(want)
