"""The last line: the keys for whatever has the focus, generated from the registry."""

from collections.abc import Iterable, Mapping

from treadle_tui.core.draw.text import Span, Spans, joined, width
from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import BY_NAME
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Refusal
from treadle_tui.widgets.styled_text import StyledText


def key_words(keys: Mapping[str, str]) -> Spans:
    """Return keys with their effects, for the hint of a dialog or an input line."""
    return joined(((Span(key, "accent"), Span(f" {word}", "dim")) for key, word in keys.items()), gap="   ")


class KeysLine(StyledText):
    """Shows the available keys; those that are disabled now are faint."""

    def show_words(self, keys: Mapping[str, str]) -> None:
        """Show the keys of an input line, since no others work in it."""
        self.show([(Span(" "), *key_words(keys))])

    def show_keys(self, actions: Iterable[Action], keymap: Keymap, *, off: Refusal | None) -> None:
        """Show the keys of these actions, as many as fit, and always the one for help."""
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
