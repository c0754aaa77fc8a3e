"""Keeps each task's transitions in the order of its versions, whichever server publishes them.

This server's commits are published at once, those of others some 20 ms later: a claim here may be published before the
submit at another server. A transition that arrives after a later one of its task is late, and observers don't get it.
"""

from collections.abc import Callable, Iterable
from time import monotonic

from treadle.wire.ids import TaskId

MOST = 20_000
"""How many tasks' last published versions are known: more than change in the second within which others publish."""

UNTOLD = 10.0
"""Seconds for which others may still publish what they did before this server became the only writer."""


class VersionOrder:
    """The last published version of each task."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock` must be monotonic; it returns seconds."""
        self._told: dict[TaskId, int] = {}
        self._told_before: dict[TaskId, int] = {}
        """The versions published before those of the last `MOST` tasks."""
        self._clock = clock
        self._shared_at = clock()
        """When another server may last have written."""

    def late(
        self, versions: Iterable[tuple[TaskId, int]], *, is_foreign: bool, is_exclusive: bool = False
    ) -> frozenset[int]:
        """Return the indexes of a batch's transitions that are older than what was published of their task before.

        The transitions of one batch are in order. One from another server that was published already (a notice that
        came twice) is late too; this server publishes its own once only, and they may keep their task's version. What
        it commits while it `is_exclusive`, the only writer, is in order anyway, and precedes all that others do later:
        it is not noted then, which took 3 of the 80 microseconds that a task costs the server in a drain.
        """
        if not is_exclusive:
            self._shared_at = self._clock()
            late = self._compare(versions, is_foreign=is_foreign)
        elif self._clock() - self._shared_at > UNTOLD:
            self._told, self._told_before = {}, {}
            return frozenset()
        else:
            late = frozenset()
            self._told.update(versions)
        if len(self._told) > MOST:
            self._told, self._told_before = {}, self._told
        return late

    def _compare(self, versions: Iterable[tuple[TaskId, int]], *, is_foreign: bool) -> frozenset[int]:
        seen, late = dict[TaskId, int](), set[int]()
        for place, (task_id, version) in enumerate(versions):
            last = self._told.get(task_id) or self._told_before.get(task_id, 0)
            before = seen.setdefault(task_id, last)
            if version < before or (is_foreign and version == before):
                late.add(place)
            else:
                self._told[task_id] = max(last, version)
        return frozenset(late)
