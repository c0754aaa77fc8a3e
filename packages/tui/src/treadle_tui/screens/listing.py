"""What the screens of one list share: the grid, the filter line where there is one, and verbs on a row's task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.message import Message

from treadle import filters
from treadle.errors import ConnectionFailed, ProblemError
from treadle.filters import FilterError
from treadle.wire.tasks import TaskFilter, TaskItem
from treadle_tui.core.actions import Scope, Verb
from treadle_tui.core.model import Dirty
from treadle_tui.core.pane import Pane
from treadle_tui.core.steer import Report
from treadle_tui.core.text import Span, clean
from treadle_tui.desk import Desk
from treadle_tui.screens.board import Board
from treadle_tui.widgets.grid import MOVES, Grid
from treadle_tui.widgets.paper import Paper
from treadle_tui.widgets.prompt import Prompt


class Listing(Board):
    """One pane that fills the screen."""

    SCOPE: ClassVar[Scope]
    FILTERS: ClassVar[bool] = False
    """Whether there is a filter line."""

    @dataclass
    class Fetched(Message):
        """A row's task, as the server has it now, for the verb that was pressed on the row."""

        verb: Verb
        task: TaskItem

    def __init__(self, desk: Desk, *, reach: str | None = None) -> None:
        super().__init__(desk)
        self._reach = reach
        """The row that one came for."""
        self.wanted = TaskFilter()
        self.filter_text = ""
        self._fetched: list[TaskItem] = []
        self.pane, self.grid = self.make()
        self._prompt = Prompt(desk.model.queue_rows) if self.FILTERS else None
        self._notice = Paper(id="notice-line")

    # What a screen says of itself.

    def make(self) -> tuple[Pane[Any], Grid]:
        """Return the pane and its grid."""
        raise NotImplementedError

    def settle(self) -> None:
        """Give the pane the rows as they are now, and the grid its titles."""
        raise NotImplementedError

    def task_id(self) -> str | None:
        """Return the task that a verb on the highlighted row means."""
        return None

    # Shared by all of them.

    def body(self) -> ComposeResult:
        """Yield the pane, and the line beneath it."""
        yield self.grid
        if self._prompt is not None:
            yield self._prompt
        else:
            yield self._notice

    def on_mount(self) -> None:
        """Begin in the pane."""
        self.grid.focus()

    @property
    def scope(self) -> Scope:
        """The pane's own keys."""
        return self.SCOPE

    def chosen(self) -> Sequence[TaskItem]:
        """Return the task that was fetched for a verb."""
        return self._fetched

    def copied(self) -> str | None:
        """Return the highlighted row's key."""
        return self.pane.rows.cursor

    def draw(self, dirty: Dirty) -> None:
        """Draw the list anew."""
        self.settle()
        if self._reach is not None and self.pane.rows.find(self._reach):
            self._reach = None
        self.grid.settle()
        self.show_notice()

    def breathe(self) -> None:
        """Ages in the list go on."""
        self.draw(self.WATCHES)

    def show_notice(self) -> None:
        """Tell what was done, for as long as it is news."""
        if self._prompt is not None:
            self._prompt.notice(self.desk.notice())
        else:
            self._notice.show([(Span(" "), *self.desk.notice())])

    def act(self, name: str) -> None:
        """Let the pane move by itself."""
        if name in MOVES:
            self.grid.move(name)
        else:
            super().act(name)

    def on_grid_opened(self) -> None:
        """Open what was clicked."""
        self.act("open")

    def act_back(self) -> None:
        """Take the filter away, or go back to the queues."""
        if self.filter_text:
            self.narrow("")
        else:
            self.act_queues()

    # The filter.

    def act_filter(self) -> None:
        """Filter this list where it has a filter, the tasks elsewhere."""
        if self._prompt is not None:
            self._prompt.edit()
        else:
            super().act_filter()

    def on_prompt_left(self) -> None:
        """Leave the filter as it was."""
        if self._prompt is not None:
            self._prompt.put(self.filter_text)
        self.grid.focus()

    def on_prompt_submitted(self, event: Prompt.Submitted) -> None:
        """Filter, or say what is wrong with the filter."""
        self.narrow(event.text)

    def narrow(self, text: str) -> None:
        """Show the rows that a filter means; one that can't be read changes nothing."""
        try:
            self.wanted = filters.parse(text)
        except FilterError as error:
            self.tell(Report(str(error), ok=False))
            return
        self.filter_text = text
        if self._prompt is not None:
            self._prompt.put(text)
        self.pane.rows.reset()
        self.draw(self.WATCHES)
        self.grid.focus()

    # Verbs on a row's task: it is read anew first, for the row says too little of it to act on.

    def _steer(self, verb: Verb) -> None:
        key, refusal = self.task_id(), self.desk.steering.off()
        if key is None or refusal is not None:
            self._fetched = []
            super()._steer(verb)
        else:
            self.run_worker(self._fetch(verb, key))

    async def _fetch(self, verb: Verb, key: str) -> None:
        try:
            answer = await self.desk.feed.request("get", id=key)
        except (ProblemError, ConnectionFailed) as error:
            self.post_message(self.Done(Report(f"could not {verb}: {clean(str(error), limit=200)}", ok=False)))
        else:
            self.post_message(self.Fetched(verb, TaskItem.model_validate(answer)))

    def on_listing_fetched(self, event: Fetched) -> None:
        """Carry the verb out on the task, after a question where one is due."""
        self._fetched = [event.task]
        super()._steer(event.verb)
