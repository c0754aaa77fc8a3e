"""What the architecture says of the dashboard's ten behaviours, and of the tests that hold them, is so."""

import re
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]
PAGE = TESTS.parent / "docs" / "architecture.md"


class Row(NamedTuple):
    """A line of the table."""

    number: int
    promise: str
    figure: str
    held_by: str

    @property
    def tests(self) -> dict[str, bool]:
        """The tests that it names, and whether they are said to be in a terminal."""
        return {name: bool(mark) for mark, name in re.findall(r"(\*T\* )?`(test_\w+)`", self.held_by)}


def rows() -> list[Row]:
    [table] = re.findall(r"<!-- behaviours: begin -->\n(.*?)<!-- behaviours: end -->", PAGE.read_text(), re.DOTALL)
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]
    return [Row(int(number), *cells) for number, *cells in lines]


def folders() -> dict[str, set[str]]:
    """Return for the name of each test the folders of `tests` in which it stands."""
    found: dict[str, set[str]] = {}
    for path in TESTS.rglob("test_*.py"):
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE):
            found.setdefault(name, set()).add(path.relative_to(TESTS).parts[0])
    return found


def test_each_of_the_ten_is_held_by_a_test_or_measured() -> None:
    assert {row.number for row in rows()} == set(range(1, 11))
    assert [row.promise for row in rows() if not row.tests and "*B*" not in row.held_by] == []
    assert {row.number for row in rows() if row.tests} == set(range(1, 11))


def test_each_named_test_is_there_and_in_a_terminal_where_that_is_said() -> None:
    known = folders()

    assert [name for row in rows() for name in row.tests if name not in known] == []
    assert [name for row in rows() for name, mark in row.tests.items() if mark != ("terminal" in known[name])] == []


def test_a_numbered_test_is_named_beside_its_number_and_none_in_a_terminal_is_left_out() -> None:
    known = folders()
    numbers = {name: int(found[1]) for name in known if (found := re.match(r"test_(\d+)_", name))}
    named = {name for row in rows() for name in row.tests}

    assert [name for row in rows() for name in row.tests if numbers.get(name, row.number) != row.number] == []
    assert {name for name in numbers if "terminal" in known[name]} <= named
