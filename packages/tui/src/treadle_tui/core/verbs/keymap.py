"""Which key does what: the registry's keys, with the user's own in place of some."""

import re
import unicodedata
from collections.abc import Iterable, Mapping

from treadle_tui.core.verbs.action import Action, cap
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME
from treadle_tui.core.verbs.scopes import SCOPE_TITLES

_NAMED = frozenset({
    *("enter", "escape", "tab", "space", "backspace", "delete", "insert", "home", "end", "pageup", "pagedown"),
    *("up", "down", "left", "right"),
    *(f"f{number}" for number in range(1, 25)),
})  # fmt: skip

_RENAMED = {
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Textual's own names for some characters."""

_ALIASES = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}
_MODIFIED = re.compile(r"(?:(?:ctrl|shift|alt)\+)+(.+)|\^(.)")


class KeymapError(ValueError):
    """An invalid keymap; `action` is the entry that is wrong."""

    def __init__(self, message: str, action: str) -> None:
        super().__init__(message)
        self.action = action


class Keymap:
    """The registry's keys with some replaced; an entry may have several keys, separated by commas."""

    def __init__(self, keys: Mapping[str, str] | None = None) -> None:
        self.own = dict(keys or {})
        """The replacements: keys in Textual's spelling by the action's name."""

    def keys(self, action: Action) -> str:
        """Return an action's keys in Textual's spelling; empty if it has none."""
        return self.own.get(action.name, action.key)

    def cap(self, action: Action | str) -> str:
        """Return the common spelling of an action's first key, or `:name` if it has none."""
        found = BY_NAME[action] if isinstance(action, str) else action
        return next(iter(self.caps(found)), f":{found.name}")

    def caps(self, action: Action) -> list[str]:
        """Return the common spellings of all of an action's keys."""
        return [cap(key) for key in self.keys(action).split(",") if key]


def read_keymap(table: Mapping[str, object]) -> Keymap:
    """Parse a table of action = "key"; an action may have several keys, as a list or separated by commas.

    Raises `KeymapError` for an unknown action or key, and if two actions in the same place would share a key.
    """
    own: dict[str, str] = {}
    for name, value in table.items():
        if name not in BY_NAME:
            raise KeymapError(f'unknown action "{name}"{_instead(name, BY_NAME)}', name)
        own[name] = ",".join(_key(part, name) for part in _parts(value, name))
    keymap = Keymap(own)
    _refuse_clashes(keymap)
    return keymap


def _parts(value: object, action: str) -> list[str]:
    given = value if isinstance(value, list) else [value]
    texts = [key for key in given if isinstance(key, str) and key]
    if not texts or len(texts) < len(given):
        raise KeymapError(f'{action}: write a key as a string, such as {action} = "f5", or a list of keys', action)
    # A comma alone is the comma key.
    return [part.strip() or part for text in texts for part in (text.split(",") if len(text) > 1 else [text])]


def _key(written: str, action: str) -> str:
    """Return a key in Textual's spelling."""
    modified = _MODIFIED.fullmatch(written)
    if modified is not None:
        base = modified[1] or modified[2]
        head = written[: -len(base)] if modified[1] else "ctrl+"
        return head + _key(base, action)
    known = _ALIASES.get(written, written)
    if len(known) == 1 and known.isprintable():
        return "space" if known == " " else known if known.isalnum() else _character(known)
    if known in _NAMED or known in _CHARACTERS:
        return known
    raise KeymapError(
        f'{action}: unknown key "{written}": write a character, or a name such as ctrl+k, f5 or pagedown', action
    )


def _character(char: str) -> str:
    name = unicodedata.name(char, "").lower().replace("-", "_").replace(" ", "_")
    return _RENAMED.get(name, name)


_CHARACTERS = frozenset(_character(chr(code)) for code in range(33, 127) if not chr(code).isalnum())


def _refuse_clashes(keymap: Keymap) -> None:
    for scope in SCOPE_TITLES:
        taken: dict[str, Action] = {}
        for action in ACTIONS:
            if not action.scopes & {scope, "everywhere"}:
                continue
            for key in filter(None, keymap.keys(action).split(",")):
                other = taken.setdefault(key, action)
                if other is not action:
                    wrong = action if action.name in keymap.own else other
                    where = "" if scope == "everywhere" else f" in {scope}"
                    raise KeymapError(
                        f'{action.name} and {other.name} both use the key "{cap(key)}"{where}: change one of them',
                        wrong.name,
                    )


def _instead(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(name, list(known), n=1)
    return f': did you mean "{close[0]}"?' if close else ": `treadle watch --keys` lists them"
