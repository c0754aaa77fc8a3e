"""Textual's bindings, generated from the registry of actions."""

from textual.binding import Binding, BindingType

from treadle_tui.core.verbs.actions import ACTIONS
from treadle_tui.core.verbs.scopes import Scope


def bindings(scope: Scope) -> list[BindingType]:
    """Return a binding for each action of a scope; all of them call the app's action `act`.

    Each has its action's name as id, so that a keymap can assign other keys.
    """
    return [
        Binding(
            action.key,
            f"app.act('{action.name}')",
            action.label,
            show=False,
            priority=action.key.startswith("ctrl"),
            id=action.name,
        )
        for action in ACTIONS
        if scope in action.scopes and action.key
    ]
