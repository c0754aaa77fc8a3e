"""The words of a filter: where each ends, its key, and the quotes in it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches

from treadle.errors import TreadleError
from treadle.filters.keys import KEYS

_WORD = re.compile(r'\s*((?:"(?:\\.|[^"\\])*"|[^\s"])+|")')
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"')
_KEY = re.compile(r"(-?)([a-z]+):(.*)", re.DOTALL)
_TAG = re.compile(r'(-?)tag\.((?:"(?:\\.|[^"\\])*"|[^:"])+):(.*)', re.DOTALL)


class FilterError(TreadleError, ValueError):
    """A filter that can't be parsed; `at` is the index in the text of the word that is wrong."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True, slots=True)
class FilterWord:
    """A word of a filter: where it starts, its text, and the key and value in it."""

    at: int
    raw: str
    key: str | None
    value: str
    negates: bool = False
    """Whether a `-` before the key excludes the value."""


def words(text: str) -> Iterator[FilterWord]:
    """Split a filter into its words; raises `FilterError` for an unclosed quote, and for unknown keys."""
    for match in _WORD.finditer(text):
        raw, at = match[1], match.start(1)
        if raw == '"' or (raw.count('"') and _QUOTED.sub("", raw).count('"')):
            raise FilterError("unclosed quote", at)
        if (nested := _TAG.fullmatch(raw)) is not None:
            yield FilterWord(at, raw, "tag", _nested(nested, at), negates=bool(nested[1]))
        elif (key := _KEY.fullmatch(raw)) is None:
            yield FilterWord(at, raw, None, unquoted(raw))
        elif key[2] not in KEYS:
            raise FilterError(_unknown(key[2]), at)
        elif key[1] and not KEYS[key[2]].negates:
            negated = ", ".join(name for name, known in KEYS.items() if known.negates)
            hint = "" if key[2] in {"id", "flow", "failure"} else "; use the opposite sign, < for >"
            raise FilterError(f"-{key[2]}: can't be negated; - works with {negated}{hint}", at)
        else:
            yield FilterWord(at, raw, key[2], unquoted(key[3]), negates=bool(key[1]))


def _unknown(name: str) -> str:
    near = get_close_matches(name, KEYS, n=1)
    meant = f"did you mean {near[0]}:?" if near else f"there are {', '.join(KEYS)}."
    return f'there is no "{name}:"; {meant} Put text with a colon in quotes'


def _nested(found: re.Match[str], at: int) -> str:
    """Return `path=value`, or an empty text when there is no value."""
    path = unquoted(found[2])
    if "=" in path:
        raise FilterError("a tag whose name contains = can't be searched by value: write tag: with the name alone", at)
    return f"{path}={unquoted(found[3])}" if found[3] else ""


def unquoted(raw: str) -> str:
    """Return a word's value, without the quotes around it or in it."""
    return _QUOTED.sub(lambda match: re.sub(r"\\(.)", r"\1", match[1], flags=re.DOTALL), raw)


def quoted(value: str, *, alone: bool = False) -> str:
    """Return a value as written in a filter; `alone` if no key precedes it."""
    awkward = not value or '"' in value or any(char.isspace() for char in value) or (alone and ":" in value)
    return '"' + re.sub(r'(["\\])', r"\\\1", value) + '"' if awkward else value
