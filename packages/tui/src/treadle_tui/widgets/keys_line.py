"""The last line: the keys of whatever has the focus, made of the registry."""

from treadle_tui.core.actions import BY_NAME, Action, Scope, offered
from treadle_tui.core.steer import Refusal
from treadle_tui.core.text import Span, Spans, width
from treadle_tui.widgets.paper import Paper


class KeysLine(Paper):
    """Shows what can be done here; what is off now is faint, and the reason stands first."""

    def show_keys(self, scope: Scope, *, off: Refusal | None, read_only: bool) -> None:
        """Show the keys of a scope, as many as there is room for."""
        last = BY_NAME["help"]
        room = self.size.width - width(_item(last, faint=False)) - 1
        spans: list[Span] = [Span(" ")]
        for action in offered(scope, read_only=read_only):
            if not action.footer or action is last:
                continue
            item = _item(action, faint=action.writes and off is not None)
            if width((*spans, *item)) > room:
                break
            spans += item
        self.show([(*spans, *_item(last, faint=False))])


def _item(action: Action, *, faint: bool) -> Spans:
    return (
        Span(action.keycap, "faint" if faint else "accent"),
        Span(f" {action.label}", "faint" if faint else "dim"),
        Span("  "),
    )
