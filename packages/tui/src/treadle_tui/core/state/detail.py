"""One task with its runs and logs, as the server sends it."""

from typing import Any

from pydantic import Field, model_validator

from treadle.wire.artifacts import ArtifactItem
from treadle.wire.fields import Model
from treadle.wire.runs import LogItem
from treadle.wire.tasks import RunItem, TaskEvent, TaskItem

MOST_LOGS = 10_000
"""How many log lines of one push are kept: the server sends a thousand, and another might send a million."""


class TaskDetail(Model):
    """The row of the topic `task`."""

    id: str
    task: TaskItem
    runs: list[RunItem] = Field(default_factory=list)
    logs: list[LogItem] = Field(default_factory=list)
    events: list[TaskEvent] = Field(default_factory=list)
    artifacts: list[ArtifactItem] = Field(default_factory=list)
    logs_left_out: int = 0
    """How many earlier lines were sent and not kept."""

    @model_validator(mode="before")
    @classmethod
    def _keep_the_last_lines(cls, row: Any) -> Any:
        if isinstance(row, dict) and isinstance(logs := row.get("logs"), list) and len(logs) > MOST_LOGS:
            return {**row, "logs": logs[-MOST_LOGS:], "logs_left_out": len(logs) - MOST_LOGS}
        return row
