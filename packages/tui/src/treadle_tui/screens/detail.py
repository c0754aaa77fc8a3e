"""One task: its state, its life as a rail, and its error, payload, result, checkpoint and logs."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widgets import TabbedContent, TabPane

from treadle.wire.status import Status
from treadle.wire.tasks import TaskItem
from treadle_tui.core.actions import Scope
from treadle_tui.core.detail import TaskDetail, timeline
from treadle_tui.core.model import Dirty
from treadle_tui.core.sheets import SHEETS, Sheets, header
from treadle_tui.core.subscriptions import Want
from treadle_tui.core.text import Span, clean
from treadle_tui.desk import Desk
from treadle_tui.keys import bindings
from treadle_tui.screens.board import Board
from treadle_tui.widgets.paper import Paper
from treadle_tui.widgets.reader import Reader


class Detail(Board):
    """Watches the task for as long as it is in front."""

    WATCHES: ClassVar[Dirty] = Dirty.LINK | Dirty.TASK
    BINDINGS = [  # noqa: RUF012 - Textual's own form
        *bindings("detail"),
        Binding("tab,right,l", "sheet(1)", show=False, priority=True),
        Binding("shift+tab,left,h", "sheet(-1)", show=False, priority=True),
    ]

    def __init__(self, desk: Desk, task_id: str) -> None:
        super().__init__(desk)
        self._task_id = task_id
        self._header = Paper(id="header")
        self._rail = Reader(id="rail", follow=True)
        self._readers = {name: Reader(id=f"sheet-{name}", follow=name == "logs") for name in SHEETS}
        self._notice = Paper(id="notice-line")
        self._sheets = Sheets(desk.glyphs)
        self._chose_sheet = False

    def body(self) -> ComposeResult:
        """Yield the header, the rail and the sheets."""
        yield self._header
        with Horizontal(id="task"):
            yield self._rail
            with TabbedContent(id="sheets", initial="tab-payload"):
                for name, reader in self._readers.items():
                    with TabPane(name.capitalize(), id=f"tab-{name}"):
                        yield reader
        yield self._notice

    def on_mount(self) -> None:
        """Watch the task."""
        self.desk.feed.want(Want("task", task_id=self._task_id))
        self._rail.entitle((Span("Runs", "title"),))
        self._reader().focus()

    def on_unmount(self) -> None:
        """Watch it no more."""
        self.desk.feed.drop("task")

    @property
    def scope(self) -> Scope:
        """A task's own keys."""
        return "detail"

    @property
    def detail(self) -> TaskDetail | None:
        """The task as the model has it; None until it is here."""
        return self.desk.model.task.rows.get(self._task_id)

    def chosen(self) -> Sequence[TaskItem]:
        """Return the task."""
        return [] if self.detail is None else [self.detail.task]

    def copied(self) -> str | None:
        """Return the task's id."""
        return self._task_id

    # Drawing.

    def draw(self, dirty: Dirty) -> None:
        """Draw the task anew."""
        self.breathe()
        if self.detail is None:
            return
        for name, lines in self._sheets.lines(self.detail).items():
            self._readers[name].show(lines)
        if not self._chose_sheet:
            # What one came to see: the error of a failed task, the log of one that runs.
            self._chose_sheet = True
            self._turn_to(_first_sheet(self.detail.task))

    def breathe(self) -> None:
        """Ages in the header and the rail go on."""
        desk = self.desk
        self._notice.show([(Span(" "), *desk.notice())])
        if self.detail is None:
            refusal = desk.model.task.refusal
            words = clean(refusal) if refusal is not None else "Loading."
            self._header.show([(Span(f" {clean(self._task_id)}  ", "bold"), Span(words, "dim"))])
            return
        self._header.show(header(self.detail, desk.context()))
        self._rail.show(timeline(self.detail, desk.model.time.now(), desk.glyphs))

    # What the reader does.

    def act_back(self) -> None:
        """Go back to the list."""
        self.post_message(self.Go("back"))

    def action_sheet(self, by: int) -> None:
        """Turn to the next or the last sheet."""
        names = list(SHEETS)
        active = self.query_one(TabbedContent).active.removeprefix("tab-")
        self._turn_to(names[(names.index(active) + by) % len(names)])

    def _turn_to(self, name: str) -> None:
        self.query_one(TabbedContent).active = f"tab-{name}"
        self._readers[name].focus()

    def _reader(self) -> Reader:
        return self._readers[self.query_one(TabbedContent).active.removeprefix("tab-")]


def _first_sheet(task: TaskItem) -> str:
    if task.error and task.status is not Status.COMPLETED:
        return "error"
    if task.status is Status.COMPLETED:
        return "result"
    return "logs" if task.status is Status.RUNNING else "payload"
