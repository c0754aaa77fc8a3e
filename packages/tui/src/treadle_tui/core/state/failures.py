"""Groups of failures: those that a filter matches, in the order in which they need attention."""

from collections.abc import Iterable
from dataclasses import dataclass

from treadle.wire.failures import FailureGroup
from treadle.wire.filters import TaskFilter
from treadle_tui.core.state.meaning import can_mean
from treadle_tui.core.state.tables import ItemRow


@dataclass(frozen=True, slots=True)
class FailureRow(ItemRow[FailureGroup]):
    """The row of a group."""


def failure_rows(items: Iterable[FailureGroup], wanted: TaskFilter) -> list[FailureRow]:
    """Return the groups that match a filter: those with failed tasks first, then by when they were last seen."""
    rows = [FailureRow(item) for item in items if means(wanted, item)]
    return sorted(rows, key=lambda row: (not row.item.failed, -row.item.last_seen_at.timestamp(), row.item.id))


KNOWN = {"job", "error", "failure", "text", "not_job", "not_error"}
"""The fields of a filter that a group can match."""


def means(wanted: TaskFilter, item: FailureGroup) -> bool:
    """Return whether a group matches a filter, by its error, its place and its jobs.

    A filter on something that only tasks have, such as a status, matches no group.
    """
    return (
        can_mean(wanted, KNOWN, (item.kind, item.place, item.error or "", *item.jobs))
        and wanted.failure in {None, item.id}
        and wanted.error in {None, item.kind}
        and item.kind not in (wanted.not_error or ())
        and (wanted.job is None or wanted.job in item.jobs)
        and not set(item.jobs) <= set(wanted.not_job or ())
    )
