"""What a request says is looked through before it is taken, but no part of it twice (E11)."""

from typing import Any

import pytest

from treadle.wire import fields
from treadle.wire.runs import Completed
from treadle.wire.tasks import TaskSubmit
from treadle.wire.values import Fault, fault
from treadle_server.errors import ValidationFailed
from treadle_server.operations import values


def test_a_payload_or_a_result_is_looked_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[Any] = []

    def noting(value: Any, place: str = "", levels: int = 64) -> Fault | None:
        looked_at.append(value)
        return fault(value, place, levels)

    monkeypatch.setattr(values, "fault", noting)
    monkeypatch.setattr(fields, "fault", noting)
    payload = {"pages": [[1, 2], [3]]}
    assert values.validate(TaskSubmit, {"payload": payload, "priority": 3}).payload == payload
    assert looked_at == [{"priority": 3}, payload]
    for result in (payload, [payload]):
        looked_at.clear()
        assert values.validate(Completed, {"result": result, "usage": 3}).result is result
        assert looked_at == [{"usage": 3}, result]


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"payload": {"pages": ["a\x00"]}}, "payload.pages[0]"),
        ({"payload": {}, "tags": {"of": ["a\x00"]}}, "tags.of[0]"),
        ({"payload": {}, "target": "a\x00"}, "target"),
        ({"payload": {}, "unknown": "a\x00"}, "unknown"),
    ],
)
def test_what_cannot_be_kept_is_found_wherever_it_stands(given: dict[str, Any], place: str) -> None:
    with pytest.raises(ValidationFailed, match=r"NUL") as refused:
        values.validate(TaskSubmit, given)
    assert refused.value.errors is not None
    assert refused.value.errors[0]["loc"] == [place]
