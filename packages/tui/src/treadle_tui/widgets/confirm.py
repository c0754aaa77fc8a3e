"""Asks before what can't be taken back: y or n, or the count typed when it is many."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input

from treadle.wire.amounts import counted
from treadle_tui.core.draw.format import short_id
from treadle_tui.core.draw.glyphs import TASK_TONES, Glyphs
from treadle_tui.core.draw.text import Span, Spans
from treadle_tui.core.verbs.plan import Plan
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import LineInput
from treadle_tui.widgets.styled_text import StyledText

SHOWN = 6


class Confirm(ModalScreen[bool]):
    """Answers True when the reader agreed. The plan was frozen when the dialog opened, and so are its ids."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, plan: Plan, glyphs: Glyphs) -> None:
        super().__init__()
        self._plan = plan
        self._glyphs = glyphs
        self._text = StyledText(id="question")
        self._count = LineInput(placeholder=f"type {len(plan.tasks)} to go on", compact=True, type="integer")

    def compose(self) -> ComposeResult:
        """Show the question, and an input when the count must be typed."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            if self._plan.question == "count":
                yield self._count

    def on_mount(self) -> None:
        """Write the question."""
        self._text.show_all(self._lines())

    def _lines(self) -> list[Spans]:
        plan = self._plan
        lines: list[Spans] = [(Span(plan.title, "bold"),), ()]
        if plan.running:
            word = "is" if plan.running == 1 else "are"
            lines.append((Span(f"{counted(plan.running, 'task')} {word} with a worker and will be stopped.", "warn"),))
        if plan.verb == "resolve":
            lines.append((Span("They count as completed by hand; that is not taken back.", "warn"),))
        if plan.left:
            lines.append((Span(f"{counted(len(plan.left), 'task')} can't be and will be left alone.", "dim"),))
        if plan.are_first:
            lines.append((Span("There are more: these are as many as are changed at once.", "warn"),))
        for task in plan.tasks[:SHOWN]:
            job = self._glyphs.clean(task.job_name)
            glyph, tone = self._glyphs.task[task.status], TASK_TONES[task.status]
            lines.append(
                (
                    Span(f"  {short_id(task.id)} ", "accent"),
                    Span(f"{glyph} {task.status.value:<10}", tone),
                    Span(f" {job}", "dim"),
                )
            )
        if len(plan.tasks) > SHOWN:
            lines.append((Span(f"  and {len(plan.tasks) - SHOWN:,} more", "dim"),))
        keys = {"enter": "go on", "esc": "leave"} if plan.question == "count" else {"y": "yes", "n esc": "no"}
        return [*lines, (), key_words(keys)]

    def action_answer(self, agreed: bool) -> None:  # noqa: FBT001 - bindings pass it so
        """Close with the answer; a `y` is none where the count is asked for."""
        if agreed and self._plan.question == "count":
            return
        self.dismiss(agreed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Agree when the count is right."""
        if event.value.strip() == str(len(self._plan.tasks)):
            self.dismiss(True)
        else:
            self._count.value = ""
            self._count.placeholder = f"{event.value or 'nothing'} is not it: type {len(self._plan.tasks)}"
