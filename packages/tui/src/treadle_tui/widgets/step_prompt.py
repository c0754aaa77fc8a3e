"""Asks where to rerun a task from: its start, or one of its kept steps."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.suggester import SuggestFromList
from textual.widgets import Input

from treadle_tui.core.draw.text import Span, Spans, clean
from treadle_tui.core.draw.wrapping import wrapped
from treadle_tui.core.verbs.reruns import StepError, read_step
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import LineInput
from treadle_tui.widgets.styled_text import StyledText

KEYS = {"enter": "rerun", "right": "complete", "esc": "leave"}
"""The keys that work in it, for its hint."""

SHOWN = 8
"""The most steps that are named: the last ones, because a rerun seldom starts far back."""


class StepPrompt(ModalScreen[str | None]):
    """Closes with the typed step, which is empty for the start, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, title: str, steps: Sequence[str], *, left_out: int) -> None:
        """`steps` are the last kept steps, as typed; `left_out` is the number of earlier ones."""
        super().__init__()
        self._title = title
        self._steps = steps
        self._unnamed = left_out + max(0, len(steps) - SHOWN)
        self._text = StyledText(id="question")
        self._sign = StyledText(classes="sign")
        self._line = LineInput(
            placeholder="its start",
            suggester=SuggestFromList(steps, case_sensitive=True),
            compact=True,
            id="step",
        )
        self._said = StyledText(id="hint")
        self._keys = StyledText()

    def compose(self) -> ComposeResult:
        """Yield the title, the line, and the possible steps."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            with Horizontal(classes="line"):
                yield self._sign
                yield self._line
            yield self._said
            yield self._keys

    def on_mount(self) -> None:
        """Show the question."""
        self._text.show([(Span(self._title, "bold"),)])
        self._sign.show([(Span("from", "dim"),)])
        self._keys.show([key_words(KEYS)])
        self._say("")

    def on_resize(self) -> None:
        """Wrap the steps for the new width."""
        self.call_after_refresh(lambda: self._say(""))

    def _say(self, wrong: str) -> None:
        """Show the error, or else the possible steps."""
        said: Spans = (Span(clean(wrong, limit=400), "warn"),) if wrong else self._kept()
        self._said.show_all(wrapped(said, self._keys.size.width or self._said.size.width, indent=2))

    def _kept(self) -> Spans:
        if not self._steps:
            return (Span("it has kept no steps", "dim"),)
        shown = [clean(step, limit=60) for step in self._steps[-SHOWN:]]
        more = f"{self._unnamed:,} more, and " if self._unnamed else ""
        return (Span(f"it has kept {more}", "dim"), Span(", ".join(shown), "accent"))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Remove the error once the line is changed."""
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with the step; an invalid name shows its error instead."""
        event.stop()
        try:
            read_step(event.value)
        except StepError as error:
            self._say(str(error))
        else:
            self.dismiss(event.value)
