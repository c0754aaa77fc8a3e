"""JSON as lines: highlighted, and folded where there is too much of it.

Only unfolded parts are written out, so ten megabytes cost no more than their first lines.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, Literal, NamedTuple, TypeAlias

from treadle.wire.amounts import counted
from treadle_tui.core.draw.documents import LONGEST, MOST_FOUND, MOST_SEARCHED, Found
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, Tone

UNFOLDED = 300
"""How many lines are unfolded at first."""

PORTION = 200
"""How many members of a container are shown at a time."""

DEEPEST = 40
"""The depth from which lines are not indented any further."""

Path: TypeAlias = tuple[int, ...]
"""The indices that lead to a value, from the outermost container inwards."""

_Kind: TypeAlias = Literal["value", "open", "close", "folded", "more"]


class _Line(NamedTuple):
    kind: _Kind
    path: Path
    """The path of the value, or of the container for other kinds of lines."""
    key: str | None
    value: Any
    comma: bool


class JsonLines:
    """A JSON value whose containers can be folded and unfolded."""

    def __init__(self, value: Any, glyphs: Glyphs, key: str = "enter") -> None:
        """`key` is the key that unfolds a block."""
        self._value = value
        self._glyphs = glyphs
        self._key = key
        self._shown: dict[Path, int] = {}
        """How many members are shown of each unfolded container."""
        self._unfold_some()
        self._lines = self._flatten()

    def __len__(self) -> int:
        """Return the number of unfolded lines."""
        return len(self._lines)

    def __getitem__(self, index: int, /) -> Spans:
        """Return a line."""
        line = self._lines[index]
        marks = {"open": self._glyphs.opened, "folded": self._glyphs.folded, "more": self._glyphs.folded}
        mark = marks.get(line.kind, " ")
        depth = min(DEEPEST, len(line.path) + (line.kind == "more"))
        key = () if line.key is None else (Span(self._quoted(line.key), "accent"), Span(": ", "faint"))
        comma = (Span(",", "faint"),) if line.comma else ()
        return (Span("  " * depth + mark + " ", "faint"), *key, *self._content(line), *comma)

    def toggle(self, index: int) -> bool:
        """Unfold or fold the container on a line; return whether there is one."""
        if not 0 <= index < len(self._lines):
            return False
        line = self._lines[index]
        match line.kind:
            case "folded":
                self._shown[line.path] = PORTION
            case "more":
                self._shown[line.path] += PORTION
            case "open" | "close":
                del self._shown[line.path]
            case "value":
                return False
        self._lines = self._flatten()
        return True

    def find(self, pattern: re.Pattern[str]) -> Found:
        """Return the paths of the values that match the pattern, by themselves or by their key."""
        places: list[Path] = []
        for seen, (path, key, value) in enumerate(_walk(self._value)):
            if seen >= MOST_SEARCHED:
                return Found(places, is_all=False)
            if (key is not None and pattern.search(key)) or (not _members(value) and pattern.search(_scalar(value))):
                places.append(tuple(path))
                if len(places) >= MOST_FOUND:
                    return Found(places, is_all=False)
        return Found(places)

    def reveal(self, place: Path) -> int:
        """Unfold everything around a value, and return its line."""
        for depth in range(len(place)):
            around, wanted = place[:depth], place[depth] + 1
            if self._shown.get(around, 0) < wanted:
                self._shown[around] = -(-wanted // PORTION) * PORTION
        self._lines = self._flatten()
        return next(
            i for i, line in enumerate(self._lines) if line.path == place and line.kind not in {"close", "more"}
        )

    def _unfold_some(self) -> None:
        """Unfold from the outside inwards, up to a few screenfuls."""
        waiting: deque[tuple[Path, Any]] = deque([((), self._value)])
        room = UNFOLDED
        while waiting:
            path, value = waiting.popleft()
            members = _members(value)
            if not members or (path and min(members, PORTION) > room):
                continue
            self._shown[path] = PORTION
            room -= min(members, PORTION)
            inner = enumerate(islice(_items(value), PORTION))
            waiting.extend(((*path, place), member) for place, (_, member) in inner if _members(member))

    def _flatten(self) -> list[_Line]:
        lines: list[_Line] = []
        todo = [_Line("value", (), None, self._value, comma=False)]
        while todo:
            line = todo.pop()
            if line.kind != "value" or not _members(line.value):
                lines.append(line)
            elif line.path not in self._shown:
                lines.append(line._replace(kind="folded"))
            else:
                lines.append(line._replace(kind="open", comma=False))
                todo.extend(reversed(self._inside(line)))
        return lines

    def _inside(self, line: _Line) -> list[_Line]:
        members, shown = _members(line.value), self._shown[line.path]
        found = [
            _Line("value", (*line.path, place), key, member, comma=place < members - 1)
            for place, (key, member) in enumerate(islice(_items(line.value), shown))
        ]
        if members > shown:
            found.append(_Line("more", line.path, None, members - shown, comma=False))
        return [*found, line._replace(kind="close", key=None)]

    def _content(self, line: _Line) -> Iterable[Span]:
        left, right = ("{", "}") if isinstance(line.value, dict) else ("[", "]")
        match line.kind:
            case "open":
                return (Span(left, "faint"),)
            case "close":
                return (Span(right, "faint"),)
            case "more":
                return (Span(f"{line.value:,} more: {self._key} shows the next {min(PORTION, line.value):,}", "dim"),)
            case "folded":
                word = "key" if isinstance(line.value, dict) else "item"
                count = _members(line.value)
                return (Span(f"{left} {counted(count, word)} {right}", "dim"),)
            case "value":
                return (self._scalar(line.value),)

    def _scalar(self, value: Any) -> Span:
        if isinstance(value, str):
            more = f"{self._glyphs.ellipsis} {len(value):,} characters" if len(value) > LONGEST else ""
            return Span(self._quoted(value) + more, "plain")
        tone: Tone = "hold" if value is None or isinstance(value, bool) else "run"
        return Span(self._glyphs.clean(_scalar(value), limit=LONGEST), tone)

    def _quoted(self, text: str) -> str:
        quoted = json.dumps(text[:LONGEST], ensure_ascii=False)
        return self._glyphs.clean(quoted, limit=LONGEST * 2)


def _members(value: Any) -> int:
    return len(value) if isinstance(value, dict | list) else 0


def _items(value: Any) -> Iterator[tuple[str | None, Any]]:
    if isinstance(value, dict):
        return ((str(key), member) for key, member in value.items())
    return ((None, member) for member in value)


def _scalar(value: Any) -> str:
    """Return a value without members as JSON; for a number too large for Python to print, its size."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 10_000:
        return f"a number of {value.bit_length():,} bits"
    return json.dumps(value, default=str) if not _members(value) else ""


def _walk(value: Any) -> Iterator[tuple[list[int], str | None, Any]]:
    """Yield every value with its path and key. The path is reused, and only valid until the next step."""
    path: list[int] = []
    if not _members(value):
        yield path, None, value
        return
    around = [enumerate(_items(value))]
    while around:
        member = next(around[-1], None)
        del path[len(around) - 1 :]
        if member is None:
            around.pop()
            continue
        place, (key, inner) = member
        path.append(place)
        yield path, key, inner
        if _members(inner):
            around.append(enumerate(_items(inner)))
