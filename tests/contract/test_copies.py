"""No six lines stand twice, in packages or tests, without a reason written beside them."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
FEWEST = 6
"""Lines that make a copy."""

_FROZEN = {"versions", "histories"}
"""Folders of what was true once and may not be edited: migrations, and what older servers left."""

_THIN = re.compile(r"[\W_]*|(else|try|finally):|return|pass|\.\.\.")
"""A line that says nothing by itself."""

_REASON = re.compile(r"\s*# Stands twice: \w+")
"""What begins the reason, in one of the two or above its heading."""


class Line(NamedTuple):
    """A line that counts, without the space around it."""

    number: int
    text: str


class Run(NamedTuple):
    """Lines that stand somewhere else too."""

    place: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.place}:{self.first}-{self.last}"


def lines_of(source: str) -> list[Line]:
    """The lines of a module that count: no imports, no comments, nothing that says nothing by itself."""
    imports = {
        number
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    stripped = ((number, " ".join(text.split())) for number, text in enumerate(source.splitlines(), 1))
    return [
        Line(number, text)
        for number, text in stripped
        if number not in imports and not text.startswith("#") and not _THIN.fullmatch(text)
    ]


def copies(sources: dict[str, str]) -> Iterator[tuple[Run, Run]]:
    """Every two places that share at least `FEWEST` lines which follow each other, as long as they are the same."""
    lines = {place: lines_of(source) for place, source in sources.items()}
    places: defaultdict[tuple[str, ...], list[tuple[str, int]]] = defaultdict(list)
    for place, counted in lines.items():
        texts = [line.text for line in counted]
        for n in range(len(texts) - FEWEST + 1):
            places[tuple(texts[n : n + FEWEST])].append((place, n))
    for several in places.values():
        for (one, a), (other, b) in combinations(several, 2):
            begins_before = a and b and lines[one][a - 1].text == lines[other][b - 1].text
            if not begins_before and not (one == other and b - a < FEWEST):
                length = _length(lines[one][a:], lines[other][b:])
                yield _run(one, lines[one][a : a + length]), _run(other, lines[other][b : b + length])


def _length(these: Iterable[Line], those: Iterable[Line]) -> int:
    length = 0
    for this, that in zip(these, those, strict=False):
        if this.text != that.text:
            break
        length += 1
    return length


def _run(place: str, lines: list[Line]) -> Run:
    return Run(place, lines[0].number, lines[-1].number)


def has_reason(run: Run, source: str) -> bool:
    """Whether the reason stands in the run or in the five lines above it, which are its heading."""
    return any(_REASON.match(line) for line in source.splitlines()[max(run.first - 6, 0) : run.last])


@pytest.mark.parametrize("where", ["packages", "tests"])
def test_no_six_lines_stand_twice_without_a_reason(where: str) -> None:
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for path in sorted((ROOT / where).rglob("*.py"))
        if not _FROZEN.intersection(path.parts)
    }

    assert len(sources) > 100
    assert [
        f"{one} = {other}"
        for one, other in copies(sources)
        if not has_reason(one, sources[one.place]) and not has_reason(other, sources[other.place])
    ] == []


_SIX = "\n".join(f"    value_{n} = {n}" for n in range(FEWEST))


def test_what_stands_twice_is_found_and_its_reason_excuses_it() -> None:
    source = f"def one():\n{_SIX}\n\n\ndef other():\n{_SIX}\n"

    [(one, other)] = copies({"a": source})

    assert (str(one), str(other)) == ("a:2-7", "a:11-16")
    assert not has_reason(one, source)
    assert has_reason(other, source.replace("def other", "# Stands twice: a test wants it.\ndef other"))


def test_five_lines_and_imports_may_stand_twice() -> None:
    five = "\n".join(_SIX.splitlines()[1:])

    assert list(copies({"a": f"def one():\n{five}\n", "b": f"def other():\n{five}\n"})) == []
    assert list(copies({"a": "import a\n" * FEWEST, "b": "import a\n" * FEWEST})) == []
