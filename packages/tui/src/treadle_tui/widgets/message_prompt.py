"""Asks for a message: its name, and its data as JSON."""

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
from treadle_tui.core.verbs.messages import Draft, MessageError
from treadle_tui.widgets.keys_line import key_words
from treadle_tui.widgets.line_input import JsonInput, LineInput
from treadle_tui.widgets.styled_text import StyledText

KEYS = {"enter": "send", "tab": "next", "right": "complete", "esc": "leave"}
"""The keys that work in it, for its hint."""

CELLS = 60
"""The width to assume before the layout is known."""


class MessagePrompt(ModalScreen[Draft | None]):
    """Closes with a valid message, as far as can be checked here, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss(None)", show=False)]

    def __init__(
        self, title: str, draft: Draft, *, waits_for: str | None, names: Sequence[str] = (), wrong: str = ""
    ) -> None:
        """`waits_for` and `names` are as typed; `wrong` is the error of an earlier attempt with this draft."""
        super().__init__()
        self._title = title
        self._draft = draft
        self._waits_for = waits_for
        self._wrong = wrong
        self._text = StyledText(id="question")
        self._signs = (StyledText(classes="sign"), StyledText(classes="sign"))
        self._name_line = LineInput(
            value=draft.name,
            placeholder="the name that ctx.receive asks for",
            suggester=SuggestFromList(names, case_sensitive=True),
            compact=True,
            select_on_focus=False,
            id="message-name",
        )
        self._data_line = JsonInput(
            value=draft.data,
            placeholder="JSON; empty for null",
            compact=True,
            select_on_focus=False,
            id="message-data",
        )
        self._said = StyledText(id="hint")
        self._keys = StyledText()

    def compose(self) -> ComposeResult:
        """Yield the title, the two lines, and their error."""
        with Vertical(id="dialog", classes="box"):
            yield self._text
            for sign, line in zip(self._signs, (self._name_line, self._data_line), strict=True):
                with Horizontal(classes="line"):
                    yield sign
                    yield line
            yield self._said
            yield self._keys

    def on_mount(self) -> None:
        """Start in the line that has to be filled in."""
        lines: list[Spans] = [(Span(self._title, "bold"),)]
        if self._waits_for is not None:
            lines.append((Span("it waits for ", "dim"), Span(clean(self._waits_for), "accent")))
        self._text.show_all(lines)
        for sign, word in zip(self._signs, ("name", "data"), strict=True):
            sign.show([(Span(word, "dim"),)])
        self._say(self._wrong)
        self._keys.show([key_words(KEYS)])
        self.set_focus(self._data_line if self._draft.name else self._name_line)

    def _say(self, wrong: str) -> None:
        self._wrong = wrong
        # As wide as the line of keys below, which is always laid out.
        lines = wrapped((Span(clean(wrong, limit=400), "warn"),), self._keys.size.width or CELLS, indent=2)
        self._said.display = bool(wrong)
        self._said.show_all(lines)

    def on_resize(self) -> None:
        """Wrap the error for the new width."""
        self.call_after_refresh(lambda: self._say(self._wrong))

    def on_input_changed(self, event: Input.Changed) -> None:
        """Remove the error once the draft is changed."""
        if (self._name_line.value, self._data_line.value) != (self._draft.name, self._draft.data):
            self._say("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Go on to the data, or close with the message; an invalid one shows its error instead."""
        event.stop()
        if event.input is self._name_line:
            self.set_focus(self._data_line)
            return
        draft = self._draft.again(self._name_line.value, self._data_line.value)
        try:
            draft.read()
        except MessageError as error:
            self._draft = draft
            self._say(str(error))
        else:
            self.dismiss(draft)
