"""A message as people write it, read back; and for which one a task waits."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle.wire.steps import StepItem
from treadle.wire.tasks import TaskItem
from treadle_tui.core.verbs.messages import Draft, MessageError, read_line, read_name, waited_for, write_name

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(min_size=1, max_size=20))
def test_10_every_name_is_written_so_that_it_is_read_back_and_nothing_in_it_is_obeyed(name: str) -> None:
    assert write_name(name).isprintable()
    assert read_name(write_name(name)) == name


@given(st.text(min_size=1, max_size=20), JSON)
def test_a_line_has_a_name_in_quotes_where_it_has_blanks_and_its_data(name: str, data: Any) -> None:
    line = f"{json.dumps(name)} {json.dumps(data)}"

    assert read_line(line).read() == (name, data)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("approved", ("approved", None)),
        ('approved {"by": "ann"}', ("approved", {"by": "ann"})),
        ('"two words"  [1, 2]', ("two words", [1, 2])),
        ("approved   7", ("approved", 7)),
    ],
)
def test_what_is_left_out_is_null(line: str, message: tuple[str, Any]) -> None:
    assert read_line(line).read() == message


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("approved by ann", "the data is not valid JSON (line 1, column 1"),
        ('approved {"by": ann}', "column 8"),
        ("approved NaN", "NaN is not valid JSON"),
        ('"approved 1', "the name has no closing quote"),
        ('"" 1', "the message needs a name"),
        ("approved " + "[" * 100_000, "more than 64 levels"),
    ],
)
def test_what_is_no_message_is_told_with_what_to_write(line: str, problem: str) -> None:
    with pytest.raises(MessageError) as refused:
        read_line(line)

    assert problem in str(refused.value)


def test_a_message_that_is_sent_once_more_as_it_was_has_the_same_id() -> None:
    draft = Draft("approved", "1")

    assert draft.again("approved", "1").id == draft.id
    assert draft.again("approved", "2").id != draft.id


@pytest.mark.parametrize(
    ("of_task", "of_step", "expected"),
    [
        ({}, {}, "approved"),
        ({"status": "paused"}, {}, "approved"),
        ({}, {"received_at": NOON, "result": 1}, None),
        ({}, {"kind": "sleep"}, None),
        ({"run_id": 3}, {}, None),
        ({"status": "running"}, {}, None),
        ({"status": "cancelled"}, {}, None),
    ],
)
def test_a_task_waits_for_a_message_by_the_step_that_ended_its_last_run(
    of_task: dict[str, Any], of_step: dict[str, Any], expected: str | None
) -> None:
    asleep = {**task(1), "status": "scheduled", "run_id": 2, "steps": 1, **of_task}
    last = {"step": "approved", "occurrence": 0, "kind": "receive", "run_id": 2, "at": NOON, **of_step}

    assert waited_for(TaskItem.model_validate(asleep), StepItem.model_validate(last)) == expected


def test_a_task_without_steps_waits_for_nothing() -> None:
    assert waited_for(TaskItem.model_validate(task(1)), None) is None
