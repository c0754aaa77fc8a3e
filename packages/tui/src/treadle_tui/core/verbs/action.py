"""The definition of an action: name, keys, label, help and scopes; and how a key is displayed."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle.wire import transitions
from treadle_tui.core.verbs.scopes import Scope

Verb: TypeAlias = transitions.Action
PAST: dict[Verb, str] = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "rerun": "rerun",
    "resolve": "resolved",
}
Takes: TypeAlias = Literal[
    "queue", "filter", "order", "theme", "context", "view", "task", "file", "time", "factor", "span", "flow",
    "message", "step",
]  # fmt: skip

ARGUMENTS: dict[Takes, str] = {
    "queue": "a queue's job, such as @global:tasks:billing",
    "filter": "a filter, such as status:failed cam-1",
    "order": "a sort order: queues and tasks have different ones",
    "theme": "a theme's name",
    "context": "a context from the configuration file",
    "view": "a view from the configuration file",
    "task": "a task's id, or the beginning of it",
    "file": "a file name",
    "time": "a time in the recording, such as 1m30, or a step, such as +10 or -1m",
    "factor": "a factor, such as 0.5 or 8",
    "span": "5min, hour or day",
    "message": 'a message\'s name and its data, such as approved {"by": "ann"}',
    "step": "one of the task's steps",
    "flow": "a flow's id, as treadle flows lists it, or the beginning of it",
}
"""Descriptions of the arguments that commands take."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the user can do with a key or a command."""

    name: str
    """Unique; used by `:` commands and the keymap."""
    key: str
    """In Textual's spelling, separated by commas; empty for an action that is only a `:` command."""
    label: str
    """Two or three words for the footer."""
    help: str
    """A sentence for the help and the palette."""
    scopes: frozenset[Scope] = field(default_factory=frozenset)
    """Where the key works: the focused pane or screen."""
    writes: bool = False
    """Whether it changes anything on the server; disabled without a connection and with --read-only."""
    footer: bool = True
    takes: Takes | None = None
    """The kind of argument that it takes as a `:` command; None for no argument."""
    replay: bool = False
    """Whether it controls a replay, and is only available in one."""
    local: bool = False
    """Whether it needs this machine's terminal or files, and is therefore disabled in a browser."""


_CAPS = {
    "question_mark": "?",
    "slash": "/",
    "backslash": "\\",
    "asterisk": "*",
    "escape": "esc",
    "colon": ":",
    "semicolon": ";",
    "comma": ",",
    "full_stop": ".",
    "exclamation_mark": "!",
    "less_than_sign": "<",
    "greater_than_sign": ">",
    "minus": "-",
    "plus": "+",
    "equals_sign": "=",
    "pageup": "pgup",
    "pagedown": "pgdn",
}


def cap(key: str) -> str:
    """Return a key in its common spelling: `^p` for Textual's `ctrl+p`."""
    if key.startswith("ctrl+"):
        return f"^{cap(key.removeprefix('ctrl+'))}"
    return _CAPS.get(key, key)
