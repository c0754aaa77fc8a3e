"""What released versions send is read today, and written as they wrote it: old workers with new servers, and back."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.golden.samples import HERE, sample, wire_models, written_by
from treadle import __version__
from treadle.wire.fields import Model, Request

RELEASED = {path.stem: json.loads(path.read_text()) for path in sorted(HERE.glob("*.json"))}
EXAMPLES = [(version, name) for version, examples in RELEASED.items() for name in examples]


NEITHER: set[str] = set()
"""Models of neither kind."""


def parted(written: Any, golden: Any, place: str = "") -> list[str]:
    """Return the places in which what is written now lacks what stands in the file, or says it otherwise."""
    if isinstance(golden, dict) and isinstance(written, dict):
        lost = [f"{place}.{key}: is left out" for key in golden.keys() - written.keys()]
        both = [parted(written[key], golden[key], f"{place}.{key}") for key in golden.keys() & written.keys()]
        return lost + [one for several in both for one in several]
    if isinstance(golden, list) and isinstance(written, list) and len(golden) == len(written):
        return [
            one
            for i, (new, old) in enumerate(zip(written, golden, strict=True))
            for one in parted(new, old, f"{place}[{i}]")
        ]
    return [] if written == golden else [f"{place}: {golden!r} became {written!r}"]


@pytest.mark.parametrize(("version", "name"), EXAMPLES)
def test_what_a_released_version_sends_is_read_and_written_as_it_wrote_it(version: str, name: str) -> None:
    golden = RELEASED[version][name]

    assert parted(written_by(wire_models()[name], golden), golden) == []


def with_news(value: Any) -> Any:
    """Return an answer as a later version may send it: with a member more wherever a model has members."""
    if isinstance(value, dict) and set(value) != {"key"}:  # the one that samples have in what is no model
        return {**{name: with_news(one) for name, one in value.items()}, "newer": {"n": 1}}
    return [with_news(one) for one in value] if isinstance(value, list) else value


ANSWERS = [(version, name) for version, name in EXAMPLES if issubclass(wire_models()[name], Model)]
REQUESTS = [(version, name) for version, name in EXAMPLES if issubclass(wire_models()[name], Request)]


@pytest.mark.parametrize(("version", "name"), ANSWERS)
def test_what_a_later_version_adds_to_an_answer_is_ignored(version: str, name: str) -> None:
    golden, model = RELEASED[version][name], wire_models()[name]

    assert parted(written_by(model, with_news(golden)), golden) == []


@pytest.mark.parametrize(("version", "name"), REQUESTS)
def test_what_a_later_version_adds_to_a_request_is_refused_by_its_name(version: str, name: str) -> None:
    golden, model = RELEASED[version][name], wire_models()[name]

    with pytest.raises(ValidationError, match=r"newer\n +Extra inputs are not permitted"):
        model.model_validate_json(json.dumps({**golden, "newer": 1}))


def test_every_model_is_an_answer_or_a_request() -> None:
    neither = {name for _, name in EXAMPLES} - {name for _, name in [*ANSWERS, *REQUESTS]}

    assert neither == NEITHER


def test_an_example_can_be_made_of_everything_that_crosses_the_wire() -> None:
    for name, model in wire_models().items():
        assert written_by(model, sample(name, model))


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ({"a": {"b": [1]}, "new": 2}, []),
        ({"a": {}}, [".a.b: is left out"]),
        ({"a": {"b": [2]}}, [".a.b[0]: 1 became 2"]),
        ({"a": {"b": [1, 2]}}, [".a.b: [1] became [1, 2]"]),
    ],
)
def test_what_is_new_may_come_and_what_was_there_may_not_go(written: Any, told: list[str]) -> None:
    assert parted(written, {"a": {"b": [1]}}) == told


def test_there_is_a_file_for_this_version() -> None:
    assert Path(HERE, f"{__version__}.json").is_file(), "python -m tests.golden.samples writes it"
