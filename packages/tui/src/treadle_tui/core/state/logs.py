"""The logs of several tasks as one list: every line once, newest first."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from treadle.encryption.fields import shown_texts
from treadle.encryption.sealer import Sealer
from treadle.wire.runs import TaskLogItem


@dataclass(frozen=True, slots=True)
class LogRow:
    """A log line, and the task and run that it belongs to."""

    id: str
    at: datetime
    task_id: str
    job: str
    run_id: int
    level: str
    message: str
    number: int
    """Orders lines of the same time: the later one has the higher number."""

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        return {**asdict(self), "at": self.at.isoformat()}

    def has(self, text: str) -> bool:
        """Return whether a text is in the line, its level, its job or its task's id, ignoring case."""
        text = text.casefold()
        return any(text in part.casefold() for part in (self.message, self.level, self.job, self.task_id))


def log_row(sealer: Sealer, row: Mapping[str, Any]) -> LogRow:
    """Return a pushed line, decrypted if a key fits."""
    item = TaskLogItem.model_validate(shown_texts(sealer, dict(row)))
    return LogRow(item.id, item.at, item.task_id, item.job_name, item.run_id, item.level, item.message, item.line)


def newest_first(rows: Iterable[LogRow]) -> list[LogRow]:
    """Return the lines by time, newest first; of the same time, the later line first."""
    return sorted(rows, key=lambda row: (row.at, row.number), reverse=True)
