"""The task list without its screen: what is loaded, highlighted and marked, and whether the list is frozen."""

from collections.abc import Callable, Sequence

from treadle.wire.amounts import counted
from treadle.wire.tasks import TaskItem
from treadle_tui.core.draw.columns import GAP, CellContext
from treadle_tui.core.draw.format import short_id, task_state, total
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, joined
from treadle_tui.core.state.marks import Marks, TaskRef
from treadle_tui.core.state.model import Model
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Refusal
from treadle_tui.core.views.pane import GONE, NO_LONGER_HERE, Pane
from treadle_tui.core.views.rows import Rows
from treadle_tui.core.views.status_bar import UNKNOWN
from treadle_tui.core.views.task_columns import columns
from treadle_tui.core.views.task_query import TaskQuery

NEWER = {"newest": "newer", "updated": "changed since"}
"""The word for rows that come in above the visible ones, for the orders in which new rows come first."""

MOST_MARKS = 10_000
"""How many tasks the server names at once."""


class TaskList:
    """Shows the tasks' table: live, or frozen until the user continues."""

    def __init__(
        self,
        model: Model,
        query: TaskQuery,
        keymap: Keymap,
        context: Callable[[], CellContext],
        empty: Callable[[], Sequence[Spans]],
    ) -> None:
        self.marks = Marks()
        self.pane: Pane[TaskItem] = Pane(
            columns(several_jobs=False), context, marks=self.marks, empty=empty, fate=self._fate
        )
        self.frozen = False
        """Whether the list is frozen."""
        self.wide = False
        """Whether payloads take the room of most other columns."""
        self._model = model
        self._query = query
        self._keymap = keymap
        self._taken = -1
        self._moved = False
        self._top = 0
        self._follows = False

    @property
    def rows(self) -> Rows[TaskItem]:
        """The loaded rows and the cursor."""
        return self.pane.rows

    @property
    def follows(self) -> bool:
        """Whether the user has chosen to keep the highlight on the first row, whichever that is."""
        return self._follows and not self.rows.pinned

    # What happens to the list.

    def begin(self, *, here: bool) -> None:
        """Show another list from its first row; `here` means that the user is in this pane."""
        self.choose_columns()
        self.rows.reset()
        self.pane.fold()
        self.marks.clear()
        self.frozen = self._follows = False
        self._top = 0
        if here:
            self.rows.pin()

    def choose_columns(self) -> None:
        """Choose the columns for the current query."""
        query = self._query
        self.pane.columns = columns(several_jobs=query.several_jobs, wide=self.wide, ended=query.ended)

    def update(self) -> bool:
        """Show the current tasks, unless frozen; return whether the query's window has changed."""
        table = self._model.tasks
        if not table.ready or (self.frozen and not (self._moved and table.generation != self._taken)):
            return False
        self._taken, self._moved = table.generation, False
        self.marks.follow(table.rows)
        self.rows.update(table.order, table.rows, offset=table.offset, total=table.total)
        return self._query.arrived(table.offset, table.order[0] if table.order else None)

    def look(self, first: int, height: int) -> bool:
        """Note which lines are visible; return whether a different window is needed."""
        moved = self._query.look(first, height, self.rows.total, self.rows.key_at)
        self._moved = self._moved or moved
        return moved

    @property
    def tombstone(self) -> str | None:
        """The id of the highlighted task if it has left the list, otherwise None."""
        return self.rows.cursor if self.rows.tombstone is not None else None

    def remember(self) -> None:
        """Update the tombstone to what the server now says of its task."""
        detail = self._model.task.rows.get(self.tombstone or "")
        if detail is not None:
            self.rows.remember(detail.task)
        elif self.rows.tombstone is not None:
            # Its position in the queue is no longer known.
            self.rows.remember(self.rows.tombstone.model_copy(update={"queue_position": None}))

    def _fate(self, task: TaskItem, context: CellContext) -> Spans:
        """Return the current state of a task that left the list, once the server has sent it, and how to open it."""
        is_known = task.id in self._model.task.rows
        if not is_known and self._model.task.ready:
            return (Span(GONE, "dim"),)
        state = (task_state(task, context.now, context.glyphs),) if is_known else ()
        here = (Span(f"{NO_LONGER_HERE.text}: {context.open_key} shows it", "dim"),)
        return joined((state, here), gap=" " * GAP)

    def scrolled(self, first: int) -> None:
        """Note how far the user has scrolled: rows that come in above from now on count as newer."""
        self._top = first

    def toggle_frozen(self) -> None:
        """Freeze the list, or let it continue."""
        self.frozen = not self.frozen

    def toggle_follow(self) -> None:
        """Keep the highlight on the first row, or on its current task."""
        if self.follows:
            self.rows.pin()
        else:
            self.rows.unpin()
            self._follows = True

    # What the user acts on.

    def mark_loaded(self) -> bool:
        """Mark all loaded tasks, or unmark them if all are marked; return False if more match than are loaded."""
        keys, count = self.rows.keys, self.rows.total
        capped = self._model.tasks.total_is_capped
        if self.marks.covers(keys) and (len(self.marks) >= count or capped or len(self.marks) >= MOST_MARKS):
            self.marks.clear()
            return True
        self.marks.add(self.rows.rows[key] for key in keys)
        return len(keys) >= count and not capped

    def chosen(self) -> list[TaskRef]:
        """Return the marked tasks, or else the highlighted one, in their current state even if the list is frozen."""
        highlighted = self.rows.highlighted
        chosen: list[TaskRef] = list(self.marks) or ([] if highlighted is None else [highlighted])
        newest = self._model.tasks.rows
        return [newest.get(choice.id, choice) for choice in chosen]

    def unsafe(self) -> Refusal | None:
        """Return why no verb may act on the highlighted row: it left the list, or may change at any moment."""
        if self.marks:
            return None
        if self.tombstone is not None:
            shows = self._keymap.cap("open")
            return Refusal(f"{short_id(self.tombstone)} is no longer in this list: {shows} shows what became of it")
        if self.follows:
            return Refusal(
                f"the highlight follows the first row: press {self._keymap.cap('follow')} to stay on this task,"
                " then try again"
            )
        return None

    # The frame.

    def waiting(self) -> int:
        """Return how many of the rows have changed, come or gone since the list was frozen."""
        table, shown = self._model.tasks, self.rows.rows
        if not self.frozen or not table.ready or table.generation != self._taken:
            return 0
        come = sum(key not in shown for key in table.rows)
        gone = sum(key not in table.rows for key in shown)
        if table.total > len(table.rows):
            # Rows that come into a full window push others over its edge; those have not gone.
            gone = max(0, gone - come)
        return come + gone + sum(key in shown and shown[key].version != row.version for key, row in table.rows.items())

    def _everything(self) -> int | None:
        """Return how many tasks the queue has in all, if a filter hides some."""
        job = self._model.queue_rows().get(self._query.filter.job or "")
        if job is None or not self._query.text:
            return None
        return sum(self._model.counts.rows.get(job.name, job.job.counts).values())

    def title(self, first: int, glyphs: Glyphs) -> Spans:
        """Return the upper line: the queue, the number of tasks, how many are marked, and how many came in above."""
        query, table = self._query, self._model.tasks
        name = glyphs.clean(query.filter.job or "all queues")
        # The total of another queue or filter is unknown until its first snapshot, as are the queues before theirs.
        is_known = table.known_at is not None or (query.want() is None and self._model.jobs.generation > 0)
        count = total(self.rows.total, capped=table.total_is_capped) if is_known else UNKNOWN
        of_all = "" if (everything := self._everything()) is None else f" of {everything:,}"
        spans = [Span("2 Tasks", "title"), Span(f"  {name}", "bold"), Span(f"  {count}{of_all}", "dim")]
        if table.is_partial:
            spans.append(Span("   partial: not all tasks were searched", "warn"))
        if self.marks:
            spans.append(Span(f"   {len(self.marks):,} marked", "accent"))
        if (newer := first - self._top) > 0 and query.order in NEWER and self.rows.pinned:
            spans += [Span(f"   +{newer:,} {NEWER[query.order]} ", "ok"), Span(f"({self._keymap.cap('top')})", "dim")]
        return tuple(spans)

    def _place(self, line: int) -> int:
        """Return how many rows are above a line, not counting a tombstone."""
        return line - (self.rows.tombstone is not None and self.rows.index < line)

    def footing(self, first: int, page: int) -> Spans:
        """Return the lower line: the visible rows, their order, and whether the list is frozen or followed."""
        about = "about " if self._model.tasks.offset_is_capped else ""
        above, last = self._place(first), self._place(min(first + page, self.rows.count))
        seen = f"rows {about}{above + 1:,}-{last:,} of {self.rows.total:,}" if last else "no rows"
        spans = [Span(f"{seen}   by {self._query.order}   ", "dim")]
        freeze = f"{self._keymap.cap('freeze')} freeze"
        if self.frozen:
            changes = self.waiting()
            word = f", {counted(changes, 'change')} waiting" if changes else ""
            spans.append(Span(f"{freeze} on{word}", "hold"))
        else:
            spans.append(Span(f"{freeze} off", "dim"))
        if self.follows:
            spans.append(Span(f"   {self._keymap.cap('follow')} follows the first row", "run"))
        return tuple(spans)
