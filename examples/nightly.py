"""A nightly load: read the sales, convert them to euros, store them. The conversion waits for rates that may be late.

Run `SALES=folder treadle worker examples.nightly`. The folder has `sales.csv`, with lines like `tea,USD,3.50` and no
header; `rates.json` (`{"USD": 0.92}`) arrives there at night. `treadle schedules run tasks:begin` starts it at once.
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
"""An item, the currency of its price, and the price."""

AGAIN = 600.0
"""Seconds between two checks for the rates."""

FOLDER = Path(os.environ.get("SALES", "."))


@task(schedule=Cron("0 3 * * *", tz="Europe/Berlin"))
async def begin() -> str:
    """Submit the night's tasks as a chain; return the id of the last one."""
    night = datetime.now(UTC).date().isoformat()
    return (await chain(extract.bind(night), in_euros, load).submit()).id


@task
def extract(night: str) -> tuple[str, list[Sale]]:
    """Read the sales, once: while the next task waits for the rates, nothing is read again."""
    with (FOLDER / "sales.csv").open(newline="") as file:
        return night, [(item, currency, float(amount)) for item, currency, amount in csv.reader(file)]


@task(max_retries=30)
def in_euros(sold: tuple[str, list[Sale]]) -> tuple[str, list[tuple[str, float]]]:
    """Convert all sales; check for the rates every ten minutes for five hours, occupying no worker meanwhile."""
    if not (rates := FOLDER / "rates.json").exists():
        raise Retry(after=AGAIN, message="the rates of the day are not there yet")
    of = json.loads(rates.read_text())
    return sold[0], [(item, amount * of[currency]) for item, currency, amount in sold[1]]


@task
def load(sold: tuple[str, list[tuple[str, float]]]) -> int:
    """Store the night's sales, replacing what was stored for that night, so that a second run changes nothing."""
    night, sales = sold
    with closing(sqlite3.connect(FOLDER / "kept.db")) as database, database:
        database.execute("CREATE TABLE IF NOT EXISTS sales (night, item, euros)")
        database.execute("DELETE FROM sales WHERE night = ?", (night,))
        database.executemany("INSERT INTO sales VALUES (?, ?, ?)", [(night, *sale) for sale in sales])
    return len(sales)
