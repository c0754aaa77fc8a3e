"""Generates the tables of keys and commands for the documentation from the registry."""

from collections.abc import Iterator

from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.actions import ACTIONS
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.scopes import SCOPE_TITLES, Scope


def key_table(keymap: Keymap) -> str:
    """Return a Markdown table for each pane and screen, with those that work everywhere last."""
    return "\n".join(_table(scope, title, keymap) for scope, title in SCOPE_TITLES.items())


def _table(scope: Scope, title: str, keymap: Keymap) -> str:
    rows = [_row(action, keymap) for action in ACTIONS if scope in action.scopes]
    return "\n".join([f"### {title}", "", "| key | command | what it does |", "|---|---|---|", *rows, ""])


def _row(action: Action, keymap: Keymap) -> str:
    keys = " ".join(f"`{key}`" for key in keymap.caps(action))
    argument = f" [{action.takes.upper()}]" if action.takes is not None else ""
    return f"| {keys} | `:{action.name}{argument}` | {' '.join([action.help, *_limits(action)])} |"


def _limits(action: Action) -> Iterator[str]:
    if action.replay:
        yield "Only with `--replay`."
    if action.local:
        yield "Not in a browser."
