"""What pydantic refuses is told in words for who sent it."""

from typing import Any

import pytest
from pydantic import ValidationError

from treadle.wire.bulk import BulkAction
from treadle.wire.edits import TaskPatch
from treadle.wire.filters import TaskFilter
from treadle.wire.jobs import JobPatch
from treadle.wire.limits import LimitPut
from treadle.wire.reasons import reason
from treadle.wire.server import TokenCreate
from treadle.wire.tasks import TaskSubmit, TaskSubmitMany


@pytest.mark.parametrize(
    ("model", "given", "says"),
    [
        (TaskSubmit, {"id": "x"}, "write a UUID, such as 019aa5c0-0000-7000-8000-000000000001"),
        (TaskSubmit, {"payload": []}, "write an object, {…}"),
        (TaskSubmit, {"limits": ["gpu"]}, "write an object, {…}"),
        (TaskSubmit, {"prio": 1}, "Extra inputs are not permitted"),
        (TaskSubmitMany, {"tasks": []}, "write at least 1 item"),
        (TaskSubmit, {"pool": "x" * 256}, "write at most 255 characters"),
        (TaskSubmit, {"pool": ""}, "write at least 1 character"),
        (TaskSubmit, {"pool": 3}, "write a text"),
        (TaskSubmit, {"priority": "high"}, "write a whole number"),
        (TaskSubmit, {"weight": 0}, "write 1 or more"),
        (TaskSubmit, {"lease_seconds": 1e12}, "write at most 315360000"),
        (TaskSubmit, {"timeout": 0}, "write more than 0"),
        (TaskSubmit, {"timeout": "1h"}, "write a number"),
        (TaskSubmit, {"scopes": "x"}, "write a list, […]"),
        (TaskSubmit, {"on_failure": "x"}, "write 'hold' or 'release'"),
        (JobPatch, {"paused": "yes"}, "write true or false"),
        (TaskPatch, {"priority": None}, "priority: may not be null; leave it out to keep its value"),
        (TaskFilter, {"id": "zz"}, "write the beginning of an id, such as 019aa5c0: hexadecimal digits and dashes"),
        (TaskFilter, {"created_from": "2026-01-31"}, "write the time with its zone, such as 2026-01-31T12:00:00Z"),
        (TaskSubmit, {"deadline": "2026-01-31T12:00"}, "write the time with its zone, such as 2026-01-31T12:00:00Z"),
        (
            TaskFilter,
            {"created_from": "2026-01-31T12:00:00 01:00"},
            "write the time as 2026-01-31T12:00:00Z, or with an offset such as +01:00, whose + is %2B in a URL",
        ),
        (
            TaskSubmit,
            {"deadline": []},
            "write the time as 2026-01-31T12:00:00Z, or with an offset such as +01:00, whose + is %2B in a URL",
        ),
        (
            TaskSubmit,
            {"traceparent": "x"},
            "write a W3C traceparent, such as 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        ),
        (TaskSubmit, {"tracestate": "ü"}, "write printable ASCII characters"),
        (TaskSubmit, {"baggage": "ü"}, "write printable ASCII characters"),
        (TaskFilter, {"failure": "x"}, "write the id of a group of failures: 16 hexadecimal digits"),
        (LimitPut, {"rate": 5}, "write an object, {…}"),
        (TokenCreate, {"name": ""}, "write 1 to 64 letters, digits, dots, underscores and dashes"),
        (BulkAction, {"action": "cancel"}, "give either ids or filter"),
    ],
)
def test_g9_a_refusal_says_what_to_write_without_patterns_and_names_of_classes(model: Any, given: Any, says: str):
    with pytest.raises(ValidationError) as refused:
        model.model_validate(given)

    assert reason(refused.value.errors(include_url=False)[0]) == says
