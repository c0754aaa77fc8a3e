"""Whether a filter, which is one of tasks, can mean something else."""

from collections.abc import Collection, Iterable

from treadle.wire.filters import TaskFilter


def can_mean(wanted: TaskFilter, known: Collection[str], said: Iterable[str]) -> bool:
    """Return whether a filter asks for `known` parts alone, for others only tasks have, and its text is in a word."""
    text = (wanted.text or "").casefold()
    is_known = all(value is None or name in known for name, value in wanted)
    return is_known and any(text in part.casefold() for part in said)
