"""Write a batch's changes of tasks with their counts: on SQLite at once, on PostgreSQL later, as one statement."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from treadle_server.store.base import LostUpdate, Tx
from treadle_server.store.postgres.changes import Change, Part
from treadle_server.store.transaction.counts import DELTAS, CountKey, apply_counts, delta_columns
from treadle_server.store.types import micros

Counts = Mapping[CountKey, int]
"""Numbers to add to the counts."""

NO_COUNTS: Counts = {}


async def change_inline(
    tx: Tx, statement: str, shared: Sequence[datetime | None], rows: Sequence[Sequence[Any]], counts: Counts
) -> None:
    """On SQLite, change a task for each of the rows, and add `counts`; `shared` are the instants common to all.

    Raises `LostUpdate` unless all tasks were changed.
    """
    await apply_counts(tx, counts)
    changed = tx.inline.run_together(statement, [None if at is None else micros(at) for at in shared], rows)
    if changed != len(rows):
        raise LostUpdate(f"{len(rows) - changed} of {len(rows)} tasks were changed by another writer")


async def postpone(tx: Tx, part: Part, counts: Counts, *, beside: Part | None = None) -> None:
    """Postpone a part, to be sent together with the batch's changes of other tasks.

    The part's first values are its tasks' numbers. `beside` is another part about the same tasks that changes no rows
    of `tasks`.

    An earlier change that can't be one statement with it is sent now. Raises `LostUpdate` as that does.
    """
    touched: frozenset[int] = frozenset(part.values[0])
    before = await tx.direct.take_along(part.name, touched)
    parts = (*before.parts[1:], part) if beside is None else (*before.parts[1:], part, beside)
    tx.direct.postpone(counted(parts, before.touched | touched, before.counts, counts))


async def postpone_beside(tx: Tx, part: Part) -> None:
    """Postpone a part that changes no tasks, to be sent with the changes that do. Raises as `postpone` does."""
    before = await tx.direct.take_along(part.name, frozenset())
    tx.direct.postpone(counted((*before.parts[1:], part), before.touched, before.counts))


def counted(parts: Sequence[Part], touched: frozenset[int], *counts: Counts) -> Change:
    """Return the change of these parts, with a first part that adds the counts."""
    total: Counter[CountKey] = Counter()
    for added in counts:
        total.update(added)
    deltas = delta_columns(total)
    return Change((Part("counted", DELTAS, deltas, len(deltas[0])), *parts), touched, total)


def part_of(name: str, sql: str, rows: Sequence[Sequence[Any]], *shared: Any, fills_queues: bool = False) -> Part:
    """Return a part that changes a task for each of the rows, which begin with its number; they are sent as columns."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return Part(name, sql, (*columns, *shared), len(rows), fills_queues=fills_queues)
