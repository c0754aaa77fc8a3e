"""The task list without its screen: what is loaded, highlighted and marked, and whether it stands still."""

from collections.abc import Callable, Sequence

from treadle.wire.tasks import TaskItem
from treadle_tui.core.browse import Browse
from treadle_tui.core.columns import Context
from treadle_tui.core.format import total
from treadle_tui.core.marks import Choice, Marks
from treadle_tui.core.model import Model
from treadle_tui.core.pane import Pane
from treadle_tui.core.rows import Rows
from treadle_tui.core.steer import Refusal
from treadle_tui.core.tasks import columns
from treadle_tui.core.text import Span, Spans, clean

NEWER = {"newest": "newer", "updated": "changed since"}
"""What those are that come in above the visible rows, in the orders in which new ones come first."""

MOST_MARKS = 10_000
"""How many tasks the server names at once."""


class TaskList:
    """Takes the tasks' table over as the reader wants it: at once, or not before he lets it go on."""

    def __init__(
        self, model: Model, browse: Browse, context: Callable[[], Context], empty: Callable[[], Sequence[Spans]]
    ) -> None:
        self.marks = Marks()
        self.pane: Pane[TaskItem] = Pane(columns(several_jobs=False), context, marks=self.marks, empty=empty)
        self.still = False
        """Whether the list stands still."""
        self.wide = False
        """Whether payloads have the room of most other columns."""
        self._model = model
        self._browse = browse
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
        """Whether the highlight stays in the first row, whichever that is, though the reader is here."""
        return self._follows and not self.rows.pinned

    # What happens to the list.

    def begin(self, *, here: bool) -> None:
        """Show another list, from its first row; `here` when the reader is in it."""
        self.dress()
        self.rows.reset()
        self.marks.clear()
        self._model.tasks.clear()
        self.still = self._follows = False
        self._top = 0
        if here:
            self.rows.pin()

    def dress(self) -> None:
        """Choose the columns."""
        self.pane.columns = columns(several_jobs=self._browse.several_jobs, wide=self.wide)

    def settle(self) -> bool:
        """Take the tasks as they are now, unless they stand still; return whether the window is another one now."""
        table = self._model.tasks
        if not table.ready or (self.still and not (self._moved and table.generation != self._taken)):
            return False
        self._taken, self._moved = table.generation, False
        self.marks.follow(table.rows)
        self.rows.settle(table.order, table.rows, offset=table.offset, total=table.total)
        return self._browse.arrived(table.offset, table.order[0] if table.order else None)

    def look(self, first: int, height: int) -> bool:
        """Note which lines are visible; return whether that wants another window."""
        moved = self._browse.look(first, height, self.rows.total, self.rows.key_at)
        self._moved = self._moved or moved
        return moved

    def scrolled(self, first: int) -> None:
        """Note where the reader went: what comes in above from now on is newer."""
        self._top = first

    def toggle_still(self) -> None:
        """Let the list stand still, or go on."""
        self.still = not self.still

    def toggle_follow(self) -> None:
        """Let the highlight stay in the first row, or with the task where it is."""
        if self.follows:
            self.rows.pin()
        else:
            self.rows.unpin()
            self._follows = True

    # What the reader acts on.

    def mark_loaded(self) -> bool:
        """Mark all tasks of the list, or none when all are; return False when there are more than are loaded here."""
        keys, count = self.rows.keys, self.rows.total
        capped = self._model.tasks.total_is_capped
        if self.marks.covers(keys) and (len(self.marks) >= count or capped or len(self.marks) >= MOST_MARKS):
            self.marks.clear()
            return True
        self.marks.add(self.rows.rows[key] for key in keys)
        return len(keys) >= count and not capped

    def chosen(self) -> list[Choice]:
        """Return the marked tasks, or the highlighted one; as they are now, also where the list stands still."""
        highlighted = self.rows.highlighted
        chosen: list[Choice] = list(self.marks) or ([] if highlighted is None else [highlighted])
        newest = self._model.tasks.rows
        return [newest.get(choice.id, choice) for choice in chosen]

    def unsafe(self) -> Refusal | None:
        """Return why no verb may act on the highlighted row: while it follows, it is another one any moment."""
        if self.follows and not self.marks:
            return Refusal("the highlight follows the first row: press F to stay with this task, then again")
        return None

    # What the frame says.

    def waiting(self) -> int:
        """Return how many of the rows here have changed, come or gone since the list stands still."""
        table, shown = self._model.tasks, self.rows.rows
        if not self.still or not table.ready or table.generation != self._taken:
            return 0
        come = sum(key not in shown for key in table.rows)
        gone = sum(key not in table.rows for key in shown)
        if table.total > len(table.rows):
            # What comes into a full window pushes others over its edge; those have not gone.
            gone = max(0, gone - come)
        return come + gone + sum(key in shown and shown[key].version != row.version for key, row in table.rows.items())

    def title(self, first: int, *, everything: int | None, ascii_only: bool) -> Spans:
        """Return the upper line: whose tasks, how many of `everything`, how many are marked or came in above."""
        browse, spans = self._browse, [Span("2 Tasks", "title")]
        if browse.job is not None or browse.several_jobs:
            name = "all queues" if browse.several_jobs else browse.job or ""
            count = total(self.rows.total, capped=self._model.tasks.total_is_capped)
            of_all = "" if everything is None else f" of {everything:,}"
            spans += [Span(f"  {clean(name, ascii_only=ascii_only)}", "bold"), Span(f"  {count}{of_all}", "dim")]
        if self.marks:
            spans.append(Span(f"   {len(self.marks):,} marked", "accent"))
        if (newer := first - self._top) > 0 and browse.order in NEWER and self.rows.pinned:
            spans += [Span(f"   +{newer:,} {NEWER[browse.order]} ", "ok"), Span("(g)", "dim")]
        return tuple(spans)

    def footing(self, first: int, page: int) -> Spans:
        """Return the lower line: which rows are visible, in which order, whether they stand still or are followed."""
        last = min(first + page, self.pane.count)
        about = "about " if self._model.tasks.offset_is_capped else ""
        seen = f"rows {about}{first + 1:,}-{last:,} of {self.pane.count:,}" if last else "no rows"
        spans = [Span(f"{seen}   by {self._browse.order}   ", "dim")]
        if self.still:
            changes = self.waiting()
            word = f", {changes:,} change{'' if changes == 1 else 's'} waiting" if changes else ""
            spans.append(Span(f"z freeze on{word}", "hold"))
        else:
            spans.append(Span("z freeze off", "dim"))
        if self.follows:
            spans.append(Span("   F follows the first row", "run"))
        return tuple(spans)
