"""F1: which limits a task counts against, and under which keys."""

import json
from typing import Any

import pytest

from treadle_server.domain.limits import key_of, named_by, own_of, text_of
from treadle_server.errors import ValidationFailed


def key(pointer: str, payload: str) -> str | None:
    [named] = named_by("lab", [{"name": "api", "key": pointer}], "lab", [], payload)
    return named.key


@pytest.mark.parametrize(
    "written", ["10000000000000000", "1e16", "10000000000000000.0", "1E+16", "1000000000000000.0e1"]
)
def test_f1_a_number_is_one_key_however_a_database_writes_it(written: str):
    assert key("/n", json.dumps({"n": 0}).replace("0", written)) == "10000000000000000"


@pytest.mark.parametrize(
    ("written", "expected"),
    [("-0.0", "0"), ("1.0", "1"), ("0.5", "0.5"), ("1e-7", "1e-07"), ("true", "true"), ("9" * 200, "9" * 200)],
)
def test_f1_other_numbers_and_booleans_are_keys_too(written: str, expected: str):
    assert key("/n", f'{{"n": {written}}}') == expected


@pytest.mark.parametrize("part", ["\u0661", "01", "-", "4", "+1", " 1"])
def test_f1_a_pointer_leads_into_a_list_by_its_places_alone(part: str):
    assert key(f"/a/{part}", '{"a": ["x", "y", "z"]}') is None


def test_f1_a_number_that_is_too_long_to_be_a_key_is_refused():
    with pytest.raises(ValidationFailed, match="a string of 309 characters"):
        key("/n", '{"n": 1e308}')


@pytest.mark.parametrize("name", ["api", "gpu", "disk", "openai"])
def test_f1_a_jobs_limit_of_another_room_with_the_same_name_is_not_the_tasks_own(name: str):
    own: list[dict[str, Any]] = [{"name": name, "key": None, "weight": 3}]
    named = named_by("@global", [{"name": name}], "lab", own, "{}")

    kept = own_of(text_of(named, "lab", own))

    assert kept == own
    again = named_by("@global", [{"name": name}], "lab", kept, "{}")
    assert (again, key_of(again)) == (named, key_of(named))
