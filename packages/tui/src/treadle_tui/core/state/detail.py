"""One task with its runs and logs, as the server sends it."""

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from treadle.encryption.fields import shown_task, shown_texts
from treadle.encryption.sealer import Sealer
from treadle.wire.artifacts import ArtifactItem
from treadle.wire.fields import Model
from treadle.wire.runs import LINES_AT_ONCE, LogItem
from treadle.wire.tasks import RunItem, TaskEvent, TaskItem

MOST_LOGS = 10_000
"""How many log lines of a push are kept: the server sends a thousand, but another might send a million."""


def shown_detail(sealer: Sealer, row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with everything decrypted that a key fits."""
    opened = {name: [shown_texts(sealer, item) for item in row.get(name, ())] for name in ("runs", "logs", "events")}
    return {**row, **opened, "task": shown_task(sealer, row["task"])}


class TaskDetail(Model):
    """A row of the topic `task`."""

    id: str
    task: TaskItem
    runs: list[RunItem] = Field(default_factory=list)
    logs: list[LogItem] = Field(default_factory=list)
    events: list[TaskEvent] = Field(default_factory=list)
    artifacts: list[ArtifactItem] = Field(default_factory=list)
    logs_left_out: int = 0
    """How many earlier lines were sent but not kept."""

    @property
    def logs_are_capped(self) -> bool:
        """Whether there may be earlier lines: the server sends only the last ones, without their total."""
        return len(self.logs) >= LINES_AT_ONCE

    @property
    def runs_left_out(self) -> int:
        """How many earlier runs are missing: the server sends the last two hundred, and numbers them from 0."""
        return min((run.run_id for run in self.runs), default=0)

    @property
    def steps_left_out(self) -> int:
        """How many steps of the task are missing from its events: the server sends the last two hundred."""
        return max(0, self.task.steps - sum(event.kind == "step" for event in self.events))

    @model_validator(mode="before")
    @classmethod
    def _keep_the_last_lines(cls, row: Any) -> Any:
        if isinstance(row, dict) and isinstance(logs := row.get("logs"), list) and len(logs) > MOST_LOGS:
            return {**row, "logs": logs[-MOST_LOGS:], "logs_left_out": len(logs) - MOST_LOGS}
        return row
