"""What is wrong in many places is told by the first of them, soon."""

import time

import pytest
from pydantic import ValidationError

from treadle.wire.tasks import TaskSubmit, TaskSubmitMany
from treadle_server.errors import ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.problems import _MANY, from_validation


@pytest.mark.parametrize("count", [_MANY, _MANY + 1])
def test_of_many_findings_the_first_are_told_and_all_are_counted(count: int) -> None:
    """A million were listed three times over, which held the server for six seconds."""
    with pytest.raises(ValidationFailed) as refused:
        values.validate(TaskSubmit, {f"é{i}": 1 for i in range(count)})

    assert refused.value.detail == f"é0: Extra inputs are not permitted (and {count - 1} more)"
    assert [error["loc"] for error in refused.value.errors] == [[f"é{i}"] for i in range(20)]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"tags": {"": 1}}, "tags: the key '': write at least 1 character"),
        ({"depends_on": {"": []}}, "depends_on: the key '': write at least 1 character"),
    ],
)
def test_a_name_that_is_none_is_told_as_a_key(given: dict[str, object], says: str) -> None:
    with pytest.raises(ValidationFailed) as refused:
        values.validate(TaskSubmit, given)

    assert str(refused.value.detail).split(" (and")[0] == says


def test_findings_deep_in_a_list_are_told_by_their_places() -> None:
    task = {"job": "lab:tasks:add", **{f"k{i}": 1 for i in range(2 * _MANY)}}

    with pytest.raises(ValidationFailed) as refused:
        values.validate(TaskSubmitMany, {"tasks": [{"job": "lab:tasks:add"}, task]})

    assert refused.value.errors[0] == {
        "loc": ["tasks", "1", "k0"],
        "msg": "Extra inputs are not permitted",
        "type": "extra_forbidden",
    }


def test_to_tell_many_findings_takes_little_more_time_than_to_find_them() -> None:
    value = {f"k{i}": 1 for i in range(200_000)}
    begun = time.thread_time()
    with pytest.raises(ValidationError) as found:
        TaskSubmit.model_validate(value)
    finding = time.thread_time() - begun

    begun = time.thread_time()
    from_validation(found.value)

    # It took 25 times as long.
    assert time.thread_time() - begun < 8 * finding
