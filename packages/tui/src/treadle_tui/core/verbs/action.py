"""What an action is: its name, its key, what it is called and where it works; and how a key is shown to people."""

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
    "queue": "a queue's job, as @global:tasks:billing",
    "filter": "a filter, as status:failed cam-1",
    "order": "an order: queues and tasks have their own",
    "theme": "a theme's name",
    "context": "a context of the configuration file",
    "view": "a view of the configuration file",
    "task": "a task's id, or how it begins",
    "file": "a file's name",
    "time": "a time in the recording, as 1m30, or a step, as +10 or -1m",
    "factor": "a factor, as 0.5 or 8",
    "span": "5min, hour or day",
    "message": 'a message\'s name and its data, as approved {"by": "ann"}',
    "step": "a step that the task keeps",
    "flow": "a flow's id, as treadle flows lists it, or how it begins",
}
"""What can stand behind a command, in words."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that one can do with a key."""

    name: str
    """Unique; what the palette's command and the keymap call it."""
    key: str
    """In Textual's spelling; several with commas; empty when it is a `:` command alone."""
    label: str
    """Two or three words for the footer."""
    help: str
    """A sentence for the help and the palette."""
    scopes: frozenset[Scope] = field(default_factory=frozenset)
    """Where the key works: the focused pane or screen."""
    writes: bool = False
    """Whether it changes anything on the server; such ones are off without a connection and with --read-only."""
    footer: bool = True
    takes: Takes | None = None
    """What may stand behind it as a `:` command; None when nothing may."""
    replay: bool = False
    """Whether it steers the replay of a recording, and means nothing without one."""
    local: bool = False
    """Whether it needs this machine's terminal or files, and so is off in a browser."""


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
    """Return a key of Textual's spelling as people know it: `^p` for `ctrl+p`."""
    if key.startswith("ctrl+"):
        return f"^{cap(key.removeprefix('ctrl+'))}"
    return _CAPS.get(key, key)
