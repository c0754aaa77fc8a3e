"""Asks from where a task is to run again: from its start, or from a step that it keeps."""

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

KEYS = {"enter": "run it", "right": "complete", "esc": "leave"}
"""What works in it."""

SHOWN = 8
"""How many steps are named, the last ones: what is run again is seldom what went well long ago."""


class StepPrompt(ModalScreen[str | None]):
    """Closes with what was written, nothing for the start, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(self, title: str, steps: Sequence[str], *, left_out: int) -> None:
        """`steps` as they are written, the last of those that are kept; `left_out` are the earlier ones."""
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
        """Show what is run again, the line, and the steps that could stand there."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            with Horizontal(classes="line"):
                yield self._sign
                yield self._line
            yield self._said
            yield self._keys

    def on_mount(self) -> None:
        """Write what is asked."""
        self._text.show([(Span(self._title, "bold"),)])
        self._sign.show([(Span("from", "dim"),)])
        self._keys.show([key_words(KEYS)])
        self._say("")

    def on_resize(self) -> None:
        """Write the steps for the new width."""
        self.call_after_refresh(lambda: self._say(""))

    def _say(self, wrong: str) -> None:
        """Say what is wrong, or which steps there are."""
        said: Spans = (Span(clean(wrong, limit=400), "warn"),) if wrong else self._kept()
        self._said.show_all(wrapped(said, self._keys.size.width or self._said.size.width, indent=2))

    def _kept(self) -> Spans:
        if not self._steps:
            return (Span("it keeps no steps", "dim"),)
        shown = [clean(step, limit=60) for step in self._steps[-SHOWN:]]
        more = f"{self._unnamed:,} more, and " if self._unnamed else ""
        return (Span(f"it keeps {more}", "dim"), Span(", ".join(shown), "accent"))

    def on_input_changed(self, event: Input.Changed) -> None:
        """What was wrong before is no longer said."""
        self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Close with what was written; what is no name is told so, and stays."""
        event.stop()
        try:
            read_step(event.value)
        except StepError as error:
            self._say(str(error))
        else:
            self.dismiss(event.value)
