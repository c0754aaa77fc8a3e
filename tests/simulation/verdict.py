"""What must be so when a simulation is at rest: the rules of `tests/history`, and what only a simulation knows."""

import sqlite3
from collections import Counter
from collections.abc import Iterator

from tests.history.checker import check
from tests.history.records import TERMINAL, History
from tests.simulation.ledger import Ledger

LOST = ("claim-expired", "start-timeout")

SOON = 0.01
"""Seconds within which a lease's end and its finding are one."""


def violations(driver: sqlite3.Connection, history: History, ledger: Ledger) -> Iterator[str]:
    """Yield everything that is not as it must be."""
    for violation in check(history):
        yield str(violation)
    yield from _counts(driver)
    yield from _specs(driver)
    if left := holds(driver):
        yield f"rest: {left} holds are left"
    yield from _leases(ledger)
    yield from _claims(ledger)


def _counts(driver: sqlite3.Connection) -> Iterator[str]:
    """Kept counts are what counting gives."""
    counting = """
        SELECT lane, status, CASE status WHEN 'pending' THEN priority ELSE 0 END, count(*) FROM tasks GROUP BY 1, 2, 3
    """
    counted, kept = Counter[object](), Counter[object]()
    for counts, rows in ((counted, counting), (kept, "SELECT lane, status, priority, n FROM lane_counts")):
        for *key, n in driver.execute(rows):
            counts[tuple(key)] += n
    for key in sorted(counted.keys() | kept.keys(), key=str):
        if counted[key] != kept[key]:
            yield f"counts: {key} is kept as {kept[key]} and counted as {counted[key]}"


def _specs(driver: sqlite3.Connection) -> Iterator[str]:
    """What is to be done is kept of each task, by its job and room, and of nothing else."""
    there = set(driver.execute("SELECT job_num, seq, room FROM tasks"))
    kept = set(driver.execute("SELECT job_num, seq, room FROM task_specs"))
    for key in sorted(there ^ kept):
        yield f"specs: {key} is {'not kept' if key in there else 'kept, and no task'}"


def _leases(ledger: Ledger) -> Iterator[str]:
    """No lease that its worker was told of ends before it is over (G2)."""
    for key, ended in ledger.ended.items():
        left = ledger.leases.get(key, 0.0) - ended.at
        if ended.reason == "claim-expired" and left > SOON and key not in ledger.released:
            yield f"lease: task {key[0]} run {key[1]} was taken {left:.3f} s before the end of its lease"


def _claims(ledger: Ledger) -> Iterator[str]:
    """A claim comes to its worker, or is handed back: none is lost while nothing befalls either side."""
    for key, ended in ledger.ended.items():
        if ended.reason not in LOST or key in ledger.received:
            continue
        for one in ledger.presences:
            if one.id == ended.worker and one.since <= ended.claimed and ended.at <= one.until:
                troubles = [when for when, server in ledger.troubles if server == one.server]
                if not any(ended.claimed <= when <= ended.at for when in troubles):
                    yield f"claim: task {key[0]} run {key[1]} never came to {one.worker}, and ended as {ended.reason}"


def unended(driver: sqlite3.Connection) -> dict[str, str]:
    """Return the tasks that are not over, with their status."""
    return {task: status for task, status in driver.execute("SELECT id, status FROM tasks") if status not in TERMINAL}


def holds(driver: sqlite3.Connection) -> int:
    """Return how many holds there are."""
    [(found,)] = driver.execute("SELECT count(*) FROM holds")
    return int(found)
