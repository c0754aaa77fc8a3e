"""A nightly load: read what was sold, turn it into euros, keep it. The middle waits for rates that may be late.

Run `SALES=folder treadle worker examples.nightly`; the folder has `sales.csv`, lines as `tea,USD,3.50` and no heading.
Somebody puts `rates.json` (`{"USD": 0.92}`) there in the night. `treadle schedules run tasks:begin` waits for no night.
"""

import csv
import json
import os
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from treadle import Cron, Retry, chain, task

Sale: TypeAlias = tuple[str, str, float]
"""What was sold, in which currency, and for how much."""

AGAIN = 600.0
"""Seconds between two looks for the rates."""

FOLDER = Path(os.environ.get("SALES", "."))


@task(schedule=Cron("0 3 * * *", tz="Europe/Berlin"))
async def begin() -> str:
    """Puts in the tasks of a night, each after the one before; returns the last one's id."""
    night = datetime.now(UTC).date().isoformat()
    return (await chain(extract.bind(night), in_euros, load).submit()).id


@task
def extract(night: str) -> tuple[str, list[Sale]]:
    """Reads what was sold, once: while the rates are waited for, nothing is read again."""
    with (FOLDER / "sales.csv").open(newline="") as file:
        return night, [(item, currency, float(amount)) for item, currency, amount in csv.reader(file)]


@task(max_retries=30)
def in_euros(sold: tuple[str, list[Sale]]) -> tuple[str, list[tuple[str, float]]]:
    """Turns all into euros; looks for the rates every ten minutes for five hours, and holds no worker meanwhile."""
    if not (rates := FOLDER / "rates.json").exists():
        raise Retry(after=AGAIN, message="the rates of the day are not there yet")
    of = json.loads(rates.read_text())
    return sold[0], [(item, amount * of[currency]) for item, currency, amount in sold[1]]


@task
def load(sold: tuple[str, list[tuple[str, float]]]) -> int:
    """Keeps the night's sales in place of what was kept of it before, so that a second run changes nothing."""
    night, sales = sold
    with closing(sqlite3.connect(FOLDER / "kept.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS sales (night, item, euros)")
        database.execute("DELETE FROM sales WHERE night = ?", (night,))
        database.executemany("INSERT INTO sales VALUES (?, ?, ?)", [(night, *sale) for sale in sales])
    return len(sales)
