"""The logs of several tasks as one: every line once, the newest first, the last few thousand."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any

from treadle.wire.runs import LogItem

KEPT = 5_000
"""Lines that are kept."""


@dataclass(frozen=True, slots=True)
class LogRow:
    """A line, and whose it is."""

    id: str
    at: datetime
    task_id: str
    job: str
    run_id: int
    level: str
    message: str

    def exported(self) -> dict[str, Any]:
        """Return what is written of it to a file."""
        return {**asdict(self), "at": self.at.isoformat()}

    def has(self, text: str) -> bool:
        """Return whether a text is in the line, its level, its job or its task's id; capitals count for nothing."""
        text = text.casefold()
        return any(text in part.casefold() for part in (self.message, self.level, self.job, self.task_id))


class MergedLog:
    """Takes the lines of each task as the server has them, and keeps them in one order."""

    def __init__(self, *, kept: int = KEPT) -> None:
        self._kept = kept
        self._of: dict[str, list[LogRow]] = {}
        self.rows: Sequence[LogRow] = ()
        """The newest first; of the same instant the later line of a task before the earlier."""

    def take(self, task_id: str, job: str, items: Sequence[LogItem]) -> bool:
        """Take a task's last lines in their order, in the place of those known before; return whether any is new."""
        rows = [LogRow("", item.at, task_id, job, item.run_id, item.level, item.message) for item in items]
        named = _named(rows)
        if [row.id for row in named] == [row.id for row in self._of.get(task_id, ())]:
            return False
        self._of[task_id] = named
        every = (row for rows in self._of.values() for row in reversed(rows))
        self.rows = sorted(every, key=lambda row: row.at, reverse=True)[: self._kept]
        return True

    def keep_only(self, task_ids: Sequence[str]) -> None:
        """Forget the lines of other tasks than these once they are too many to be kept."""
        if sum(map(len, self._of.values())) > self._kept:
            self._of = {key: rows for key, rows in self._of.items() if key in task_ids}


def _named(rows: Sequence[LogRow]) -> list[LogRow]:
    """Give each line a name that stays when others come and the oldest go: when it was, and the how-manieth then."""
    seen: dict[tuple[int, datetime], int] = {}
    named = []
    for row in rows:
        moment = (row.run_id, row.at)
        seen[moment] = seen.get(moment, 0) + 1
        named.append(replace(row, id=f"{row.task_id} {row.run_id} {row.at.isoformat()} {seen[moment]}"))
    return named
