"""The protocol's own numbers have bounds in every answer, and what a task's author sends has none of them."""

import importlib
import math
import pkgutil
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import ValidationError

from treadle import wire
from treadle.wire.fields import Model
from treadle.wire.jobs import JobItem, QueueHistory
from treadle.wire.limits import LimitItem, ShownRate
from treadle.wire.tasks import TaskItem
from treadle.wire.workers import WorkerItem

NOON = "2026-11-21T12:00:00Z"
LIMIT = {"id": "1", "room_id": "lab", "name": "gpu", "created_at": NOON}
JOB = {"id": "1", "room_id": "lab", "category": "tasks", "name": "sum", "full_name": "lab:tasks:sum", "schema": {}}
TASK = {"id": "1", "job_name": "lab:tasks:sum", "room_id": "lab", "status": "pending", "scheduled_at": NOON}
WORKER = {"id": "1", "last_heartbeat": NOON, "created_at": NOON}


def models(base: type[Model]) -> Iterator[type[Model]]:
    for model in base.__subclasses__():
        yield model
        yield from models(model)


def integers(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if schema.get("type") == "integer":
            yield schema
        for part in schema.values():
            yield from integers(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from integers(part)


def test_no_integer_of_an_answer_has_more_than_64_bits() -> None:
    for module in pkgutil.iter_modules(wire.__path__):
        importlib.import_module(f"treadle.wire.{module.name}")

    found = [one for model in models(Model) for one in integers(model.model_json_schema())]

    assert len(found) > 100
    assert [one for one in found if not {"minimum", "maximum"} <= one.keys()] == []


@pytest.mark.parametrize(
    ("model", "row", "field"),
    [
        (LimitItem, LIMIT | {"used": 10**400}, "used"),
        (LimitItem, LIMIT | {"waiting": 2**63}, "waiting"),
        (LimitItem, LIMIT | {"busiest": [{"tokens": -math.inf}]}, "busiest.0.tokens"),
        (JobItem, JOB | {"created_at": NOON, "counts": {"pending": 10**400}}, "counts.pending"),
        (QueueHistory, {"step_seconds": 10, "completed": [0, 10**400], "failed": []}, "completed.1"),
        (QueueHistory, {"step_seconds": math.nan, "completed": [], "failed": []}, "step_seconds"),
        (QueueHistory, {"step_seconds": 0, "completed": [], "failed": []}, "step_seconds"),
        (ShownRate, {"count": 1, "seconds": 0, "burst": 1}, "seconds"),
        (WorkerItem, WORKER | {"beat_seconds": 0}, "beat_seconds"),
        (WorkerItem, WORKER | {"idle_beat_seconds": 0}, "idle_beat_seconds"),
        (TaskItem, TASK | {"created_at": NOON, "usage": math.nan}, "usage"),
    ],
)
def test_a_number_with_which_nobody_can_calculate_is_refused(
    model: type[Model], row: dict[str, Any], field: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        model.model_validate(row)

    assert [".".join(map(str, error["loc"])) for error in refused.value.errors()] == [field]


def test_json_of_a_task_may_hold_any_number() -> None:
    numbers = {"large": 10**400, "none": math.inf}

    task = TaskItem.model_validate(TASK | {"created_at": NOON, "payload": numbers, "progress": numbers})

    assert task.payload == task.progress == numbers
