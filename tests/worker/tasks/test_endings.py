"""Results, errors and outcomes as they are reported."""

from collections.abc import Sequence

import pytest

from treadle.tasks import endings
from treadle.tasks.verdicts import Verdicts
from treadle.values import LONGEST_TEXT, clean

pytestmark = pytest.mark.anyio


def test_results_and_errors_become_reports_that_any_store_keeps() -> None:
    assert endings.completed({"a": (1, 2)}) == {"kind": "completed", "result": {"a": [1, 2]}}
    refused = endings.completed(object())
    assert (refused["kind"], refused["reason"]) == ("exception", "internal-error")
    assert "is no JSON" in refused["error"]
    assert endings.raised(ValueError("a\x00b\ud800"))["error"] == "ValueError: a\\x00b\\ud800"
    assert len(clean("x" * 3_000_000)) <= LONGEST_TEXT


class Underivable(ExceptionGroup[Exception]):
    def derive(self, excs: Sequence[Exception]) -> ExceptionGroup[Exception]:
        raise TypeError("it has no others")


def nested(levels: int) -> Exception:
    error: Exception = KeyError("the last one")
    for _ in range(levels):
        error = ExceptionGroup("more", [error])
    return error


def fail_with(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (SyntaxError("odd", ("f.py", 1, "no number", "text")), "SyntaxError: odd (f.py, line 1)"),
        (SyntaxError("odd", (5, "1", 2, 7)), "SyntaxError: odd"),
        (Underivable("some", [ValueError("x")]), "Underivable: some (1 sub-exception)"),
        (nested(3000), "ExceptionGroup: more (1 sub-exception)"),
    ],
    ids=["an offset that is no number", "a text that is none", "a group that can't be split", "a very deep group"],
)
def test_an_error_that_can_not_be_written_out_is_told_with_its_frames_n1(error: Exception, said: str) -> None:
    with pytest.raises(type(error)):
        fail_with(error)

    told = endings.raised(error, Verdicts(fail_on=(OSError,)))

    assert (told["kind"], told["error"]) == ("failed", said)
    assert "test_endings.py" in told["traceback"]
    assert said in told["traceback"]


def test_what_a_very_deep_group_holds_decides_whether_it_is_final() -> None:
    assert endings.raised(nested(3000), Verdicts(fail_on=(KeyError,)))["kind"] == "exception"
