"""What `treadle copy` says: how far it is, and what was copied."""

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from treadle.wire.amounts import counted
from treadle.wire.shown import clean
from treadle_server.copying.copy import Copied, TableProgress

EVERY = 1.0
"""Seconds between two lines about one table."""


class Progress:
    """Says on standard error how far it is: a line for each table that has rows, and for a large one every second."""

    def __init__(self) -> None:
        self._said = time.monotonic()

    def __call__(self, step: TableProgress) -> None:
        """Say it, unless something was said a moment ago."""
        now = time.monotonic()
        if step.done and (step.done == step.total or now - self._said >= EVERY):
            self._said = now
            click.echo(clean(f"{step.doing} {step.done:,} of {step.total:,} rows of {step.table}"), err=True)


def lines(copied: Copied, seconds: float) -> Iterator[str]:
    """Give the lines that are said of a copy when it is whole: a table with rows each, then how long it took."""
    width = max(len(name) for name in copied.tables)
    for name, digest in copied.tables.items():
        if digest.rows:
            yield f"{name:<{width}}  {digest.rows:>12,}  {digest}"
    rows = counted(copied.rows, "row")
    yield f"{rows} copied, read back and compared in {seconds:.1f} s. Start the server on TO now."


def as_json(copied: Copied, seconds: float) -> str:
    """Return the same as JSON for programs: `rows`, `seconds`, and the rows and checksum of each of `tables`."""
    tables: dict[str, Any] = {
        name: {"rows": digest.rows, "checksum": str(digest)} for name, digest in copied.tables.items()
    }
    return json.dumps({"rows": copied.rows, "seconds": round(seconds, 3), "tables": tables})
