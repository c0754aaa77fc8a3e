"""Whether a filter for tasks can apply to something other than a task."""

from collections.abc import Collection, Iterable

from treadle.wire.filters import TaskFilter


def can_mean(wanted: TaskFilter, known: Collection[str], said: Iterable[str]) -> bool:
    """Return whether a filter uses only `known` parts (others apply only to tasks) and its text is in one of `said`."""
    text = (wanted.text or "").casefold()
    is_known = all(value is None or name in known for name, value in wanted)
    return is_known and any(text in part.casefold() for part in said)
