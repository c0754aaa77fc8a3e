"""Asks before an action that can't be undone: y or n, or the count to type if there are many tasks."""

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
from treadle_tui.core.verbs.action import PAST
from treadle_tui.core.verbs.plan import Plan
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import LineInput
from treadle_tui.widgets.styled_text import StyledText

SHOWN = 6


class Confirm(ModalScreen[bool]):
    """Closes with True if the user agreed. The plan and its tasks were fixed when the dialog opened."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", show=False),
        Binding("n,escape,q", "answer(False)", show=False),
    ]

    def __init__(self, plan: Plan, glyphs: Glyphs) -> None:
        super().__init__()
        self._plan = plan
        self._glyphs = glyphs
        self._text = StyledText(id="question")
        self._count = LineInput(placeholder=f"type {len(plan.tasks)} to confirm", compact=True, type="integer")

    def compose(self) -> ComposeResult:
        """Yield the question, and an input if the count must be typed."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            if self._plan.question == "count":
                yield self._count

    def on_mount(self) -> None:
        """Show the question."""
        self._text.show_all(self._lines())

    def _lines(self) -> list[Spans]:
        plan = self._plan
        lines: list[Spans] = [(Span(plan.title, "bold"),), ()]
        if plan.running:
            word = "is" if plan.running == 1 else "are"
            lines.append((Span(f"{counted(plan.running, 'task')} {word} with a worker and will be stopped.", "warn"),))
        if plan.verb == "resolve":
            lines.append((Span("They will count as completed by hand; this can't be undone.", "warn"),))
        if plan.left:
            lines.append(
                (Span(f"{counted(len(plan.left), 'task')} can't be {PAST[plan.verb]} and will be skipped.", "dim"),)
            )
        if plan.are_first:
            lines.append((Span("There are more: this is the most that can be changed at once.", "warn"),))
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
        keys = {"enter": "confirm", "esc": "leave"} if plan.question == "count" else {"y": "yes", "n esc": "no"}
        return [*lines, (), key_words(keys)]

    def action_answer(self, agreed: bool) -> None:  # noqa: FBT001 - bindings pass it so
        """Close with the answer; `y` is ignored if the count must be typed."""
        if agreed and self._plan.question == "count":
            return
        self.dismiss(agreed)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Agree if the count is right."""
        if event.value.strip() == str(len(self._plan.tasks)):
            self.dismiss(True)
        else:
            self._count.value = ""
            self._count.placeholder = f"{event.value or 'nothing'} is wrong: type {len(self._plan.tasks)}"
