"""Conditions on a task's status, spelt out so that partial indexes apply."""

from collections.abc import Sequence

from sqlalchemy import ColumnElement, literal_column

from treadle.wire.status import LEASED, Status
from treadle_server.store.tables import tasks


def status_is(*statuses: Status) -> ColumnElement[bool]:
    """Return the condition that a task is in one of the statuses, spelt out so that partial indexes apply."""
    words = [f"'{status.value}'" for status in sorted(statuses)]
    if len(words) == 1:
        return literal_column(f"tasks.status = {words[0]}")
    condition: ColumnElement[bool] = literal_column(f"tasks.status IN ({', '.join(words)})")
    return condition


def statuses(wanted: Sequence[Status], *, plain: bool) -> list[ColumnElement[bool]]:
    """Return the conditions that a task is in one of the statuses; those that are `plain` offer no index."""
    if not wanted:
        return [literal_column("1 = 0")]
    if plain:
        return [tasks.c.status.concat("").in_([status.value for status in wanted])]
    conditions = [status_is(*wanted)]
    if set(wanted) < LEASED:
        # The index of leased tasks is used only when its own condition stands in the query word by word.
        conditions.append(status_is(*LEASED))
    return conditions
