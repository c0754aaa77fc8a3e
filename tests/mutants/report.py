"""The table of docs/reliability.md: which net found which fault, and in how many seconds."""

import re
from collections.abc import Mapping
from pathlib import Path

from tests.mutants.faults import ROOT, Fault
from tests.mutants.nets import Verdict

PAGE = ROOT / "docs" / "reliability.md"

BEGIN, END = "<!-- faults: begin -->", "<!-- faults: end -->"
"""Between these the page is written by `nox -s mutants -- --table`."""

_ROW = re.compile(r"^\| `(?P<name>[^`]+)` \|.*\|$", re.MULTILINE)


def listed(page: Path = PAGE) -> dict[str, str]:
    """Return the rows that the page has, by the names of their faults."""
    return {found["name"]: found[0] for found in _ROW.finditer(_between(page.read_text()))}


def write(faults: list[Fault], verdicts: Mapping[str, Verdict], page: Path = PAGE) -> None:
    """Write the table anew: a fault whose net was not run keeps its row."""
    before, _, rest = page.read_text().partition(BEGIN)
    rows = listed(page)
    rows |= {fault.name: _row(fault, verdicts[fault.name]) for fault in faults if fault.name in verdicts}
    shown = [rows[fault.name] for fault in faults if fault.name in rows]
    lines = [_summary(shown), "", "| fault | in | found by | s |", "|---|---|---|---|", *shown]
    page.write_text("\n".join([f"{before}{BEGIN}", *lines, f"{END}{rest.partition(END)[2]}"]))


def _row(fault: Fault, verdict: Verdict) -> str:
    by = f"`{verdict.by.rpartition('::')[2] or verdict.by}`" if verdict.is_red else "**not found**"
    return f"| `{fault.name}` | `{fault.file}` | {by} | {verdict.seconds:.1f} |"


def _summary(shown: list[str]) -> str:
    name, *_, seconds = (part.strip() for part in max(shown, key=_seconds).strip("|").split("|"))
    lost = sum("**not found**" in row for row in shown)
    found = "all found" if not lost else f"{lost} **not found**"
    return f"{len(shown)} faults, {found}; the slowest is {name} with {seconds} s."


def _seconds(row: str) -> float:
    return float(row.strip("|").rpartition("|")[2])


def _between(text: str) -> str:
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError(f"the page has not one {BEGIN} and one {END}: put them where the table is to stand")
    return text.partition(BEGIN)[2].partition(END)[0]
