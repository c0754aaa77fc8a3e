"""Words that a newer server may say, and that nobody may give to one."""

import pickle

import pytest
from pydantic import TypeAdapter, ValidationError

from treadle.wire.edits import TaskPatch
from treadle.wire.runs import ExceptionReport
from treadle.wire.status import RETRIED, Reason


def test_a_reason_that_only_a_newer_server_knows_is_read_as_it_is_written() -> None:
    """G11: a newer server serves older clients; each `get` of such a task raised pydantic's `ValidationError`."""
    read = TypeAdapter(Reason | None).validate_json('"solar-flare"')

    assert read == "solar-flare"
    assert isinstance(read, Reason)
    assert (str(read), read.name, read in RETRIED) == ("solar-flare", "solar-flare", False)
    assert pickle.loads(pickle.dumps(read)) == read
    assert "solar-flare" not in list(Reason)


@pytest.mark.parametrize("word", ["", "Solar Flare", "solar_flare", "x" * 31, "a-" * 9, 5])
def test_what_is_no_word_is_no_reason(word: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Reason | None).validate_python(word)


@pytest.mark.parametrize("given", [{"reason": "solar-flare"}, {"reason": "x" * 31}])
def test_a_reason_that_is_given_is_one_that_there_is(given: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        ExceptionReport.model_validate(given)
    with pytest.raises(ValidationError):
        TaskPatch.model_validate({"status": "failed", **given})
    assert ExceptionReport.model_validate({"reason": "resources-unavailable"}).reason is Reason.RESOURCE_UNAVAILABLE
