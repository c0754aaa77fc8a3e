"""What the measuring programs print: a table for people, and a line of JSON with the machine and the versions."""

import json
import os
import platform
import sqlite3
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any


def machine() -> dict[str, Any]:
    """Return what a number depends on besides the code."""
    return {
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "treadle": version("treadle-server"),
    }


def show(title: str, rows: Sequence[Mapping[str, Any]], verdict: Mapping[str, Any]) -> None:
    """Print the rows, which share their keys, as a table; then everything as JSON."""
    columns = list(rows[0])
    cells = [columns, *([_cell(row[name]) for name in columns] for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(columns))]
    print(f"\n{title}\n")
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print("\n" + ", ".join(f"{name}: {_cell(value)}" for name, value in verdict.items()))
    print(json.dumps({"title": title, "machine": machine(), "rows": list(rows), **verdict}))


def _cell(value: Any) -> str:
    return f"{value:,.3f}" if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)
