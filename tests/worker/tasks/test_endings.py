"""Results, errors and outcomes as they are reported."""

import pytest

from treadle.tasks import endings
from treadle.values import LONGEST_TEXT, clean

pytestmark = pytest.mark.anyio


def test_results_and_errors_become_reports_that_any_store_keeps() -> None:
    assert endings.completed({"a": (1, 2)}) == {"kind": "completed", "result": {"a": [1, 2]}}
    refused = endings.completed(object())
    assert (refused["kind"], refused["reason"]) == ("exception", "internal-error")
    assert "is no JSON" in refused["error"]
    assert endings.raised(ValueError("a\x00b\ud800"))["error"] == "ValueError: a\\x00b\\ud800"
    assert len(clean("x" * 3_000_000)) <= LONGEST_TEXT
