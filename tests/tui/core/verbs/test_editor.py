"""A task as a text, and what was changed in it, read back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle.wire.edits import EDITABLE
from treadle.wire.tasks import TaskItem
from treadle_tui.core.verbs.editor import FIELDS, Wrong, edit_text, read_edit, reading_text, values

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def test_all_that_the_server_lets_an_edit_change_stands_in_the_editor() -> None:
    assert set(FIELDS) == EDITABLE - {"delay"}


@given(JSON, st.integers(-100, 100), st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3))
def test_10_every_task_can_be_read_back_from_its_text_and_nothing_in_it_is_obeyed(
    payload: Any, priority: int, tags: dict[str, str]
) -> None:
    one = TaskItem.model_validate(task(1) | {"payload": {"a": payload}, "priority": priority, "tags": tags})

    text = edit_text(one)

    assert all(char == "\n" or char.isprintable() for char in text)
    assert read_edit(text, one) == {}
    assert all(char == "\n" or char.isprintable() for char in reading_text(one, NOON))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "it must be a single JSON object"),
        ('{"priority": 1.5}', "priority: write a whole number"),
        ('{"payload": null}', "payload: must not be null"),
        ('{"scheduled_at": null}', "scheduled_at: must not be null"),
        ('{"scheduled_at": "noon"}', "scheduled_at: write the time as 2026"),
        ('{"weight": 0}', "weight: write 1 or more"),
        ('{"payload": {"x": NaN}}', "NaN is not valid JSON"),
        ('{"priority": 5, "priority": 1}', "duplicate name 'priority' in an object: remove one of them"),
        ("[" * 100_000, "more than 64 levels"),
    ],
)
def test_each_mistake_is_named(text: str, problem: str) -> None:
    found = read_edit(text, TaskItem.model_validate(task(1)))

    assert isinstance(found, Wrong)
    assert problem in found.problems[0]


def test_a_value_is_changed_that_is_other_json_though_python_calls_it_equal() -> None:
    one = TaskItem.model_validate(task(1) | {"payload": {"on": True, "n": 1, "many": [0]}})
    written = {"on": 1, "n": 1.0, "many": [False]}

    found = read_edit(json.dumps({"payload": written}), one)

    assert json.dumps(found) == json.dumps({"payload": written})


def test_an_empty_file_changes_nothing() -> None:
    one = TaskItem.model_validate(task(1))

    assert read_edit("// only words\n\n", one) == {}
    assert values(one)["tags"] == {}
