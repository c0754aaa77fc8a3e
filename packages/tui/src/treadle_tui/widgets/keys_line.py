"""The last line: the keys of whatever has the focus, made of the registry."""

from collections.abc import Iterable

from treadle_tui.core.draw.text import Span, Spans, width
from treadle_tui.core.verbs.actions import BY_NAME, Action
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Refusal
from treadle_tui.widgets.styled_text import StyledText


class KeysLine(StyledText):
    """Shows what can be done here; what is off now is faint, and the reason stands first."""

    def show_keys(self, actions: Iterable[Action], keymap: Keymap, *, off: Refusal | None) -> None:
        """Show the keys of actions, as many as there is room for; the one to help always."""
        last = BY_NAME["help"]
        room = self.size.width - width(_item(last, keymap, faint=False)) - 1
        spans: list[Span] = [Span(" ")]
        for action in actions:
            if not action.footer or action is last:
                continue
            item = _item(action, keymap, faint=action.writes and off is not None)
            if width((*spans, *item)) > room:
                break
            spans += item
        self.show([(*spans, *_item(last, keymap, faint=False))])


def _item(action: Action, keymap: Keymap, *, faint: bool) -> Spans:
    return (
        Span(keymap.cap(action), "faint" if faint else "accent"),
        Span(f" {action.label}", "faint" if faint else "dim"),
        Span("  "),
    )
