"""F2: what a run's code sees of the tasks that it waited for, and which of it becomes an argument."""

from typing import Any

import pytest

from treadle.errors import InvalidArguments
from treadle.tasks.dependencies import payload_of, replaced, results
from treadle.values import plain


def done(result: Any = None, status: str = "completed") -> dict[str, Any]:
    return {"id": "t", "status": status, "result": result}


def test_f2_results_stand_under_their_names_alone_or_in_a_list() -> None:
    claim = {"payload": {}, "dependencies": {"one": done(1), "many": [done(2), done(None, "failed")]}}

    assert results(claim) == {"one": 1, "many": [2, None]}
    assert results({"payload": {}}) == {}


def test_f2_results_are_put_into_the_arguments_places() -> None:
    claim = {
        "payload": {"a": 1},
        "dependencies": {"x": done(2), "y": [done(3), done(4)]},
        "arguments_from": {"b": "x", "c": "y", "d": "x"},
    }

    assert payload_of(claim) == {"a": 1, "b": 2, "c": [3, 4], "d": 2}
    assert claim["payload"] == {"a": 1}


def test_f2_what_was_removed_meanwhile_is_no_argument() -> None:
    claim = {"payload": {}, "dependencies": {"y": done(1)}, "arguments_from": {"a": "x"}}

    with pytest.raises(InvalidArguments, match="the dependency 'x', which has been removed since"):
        payload_of(claim)


@pytest.mark.parametrize("found", [done(None, "failed"), [done(1), done(None, "cancelled")]])
def test_f2_what_did_not_complete_is_no_argument(found: Any) -> None:
    claim = {"payload": {}, "dependencies": {"x": found}, "arguments_from": {"a": "x"}}

    with pytest.raises(InvalidArguments, match=r"which is (failed|cancelled) and has none"):
        payload_of(claim)


def test_f2_each_dependency_of_a_claim_may_be_replaced() -> None:
    claim = {"payload": {}, "dependencies": {"x": done(1), "y": [done(2)]}}

    changed = replaced(claim, lambda one: {**one, "result": 0})

    assert results(changed) == {"x": 0, "y": [0]}
    assert replaced({"payload": {}}, lambda one: one) == {"payload": {}}


def test_f2_a_result_that_is_not_there_says_why() -> None:
    """A task that is rerun after what it waited for has gone was told its name alone."""
    some = results({"payload": {}, "dependencies": {"x": done(1)}})

    with pytest.raises(
        KeyError, match=r"'y': this task waited for 'x' alone, or its dependency has been removed since"
    ):
        some["y"]
    with pytest.raises(KeyError, match="'y': this task waited for nothing, or its dependency has been removed since"):
        results({"payload": {}})["y"]
    assert some.get("y") is None
    assert plain(some, "result") == {"x": 1}
