"""One order for each task's transitions, whichever server tells them: that of their versions.

What this server commits is told at once, what others commit some 20 ms later: a claim here may be told before the
submit at another server. What is heard after something later was told is late: observers are not told it any more.
"""

from collections.abc import Callable, Iterable
from time import monotonic

from treadle.wire.ids import TaskId

MOST = 20_000
"""Tasks of which the version that was told last is known: more than change within the second in which others tell."""

UNTOLD = 10.0
"""Seconds for which others may still tell what they did before this server became the only one that writes."""


class VersionOrder:
    """The version of each task that was told last."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock` is the monotonic one."""
        self._told: dict[TaskId, int] = {}
        self._told_before: dict[TaskId, int] = {}
        """What was told before the last `MOST` tasks were."""
        self._clock = clock
        self._shared_at = clock()
        """When another server may last have written."""

    def late(
        self, versions: Iterable[tuple[TaskId, int]], *, is_foreign: bool, is_exclusive: bool = False
    ) -> frozenset[int]:
        """Return which of a batch's transitions, by their places, are older than what was told of their task before.

        Those of one batch are in order. What another server tells and was told already (a notice that came twice) is
        late too; what this server commits is told but once, and may keep its task's version. What it commits while it
        `is_exclusive`, the only one that writes, comes in order by itself, and before all that others do later: then
        nothing is noted of it, which took 3 of the 80 microseconds that a task costs the server in a drain.
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
            told = self._told.get(task_id) or self._told_before.get(task_id, 0)
            before = seen.setdefault(task_id, told)
            if version < before or (is_foreign and version == before):
                late.add(place)
            else:
                self._told[task_id] = max(told, version)
        return frozenset(late)
