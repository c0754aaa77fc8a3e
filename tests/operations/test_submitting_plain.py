"""The short way of plain tasks into the server takes what the models would take, and makes the same of it."""

import json
from datetime import UTC, datetime
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.fields import MOST_OF_REQUEST, Request
from treadle.wire.tasks import TaskOfMany
from treadle.wire.values import is_kept
from treadle_server.domain.jobs import Job
from treadle_server.errors import ValidationFailed
from treadle_server.live.client_ops import Submit, SubmitEach
from treadle_server.operations.submitting import build
from treadle_server.operations.task_lists import TasksOutline, plain_tasks
from treadle_server.operations.values import outline, text_of

JOB = "@global:tasks:noop"
NOOP = Job(1, "0", "@global", "tasks", "noop", "{}", 1, "{}", datetime.now(UTC))

names = st.sampled_from([JOB, "room_1:analysis:RDF", "", "a\x00b", "ä", "x" * 300, "a b", 5, None, True])
ids = st.sampled_from([None, str(uuid4()), str(uuid4()).upper(), "x", 5])
payloads = st.sampled_from([None, [], {}, {"n": 1}, {"ä": [None, 1.5]}])
plain_or_nearly = st.fixed_dictionaries({"job": names}, optional={"payload": payloads, "id": ids})
odd = st.sampled_from([{}, 5, {"job": JOB, "priority": 3}, {"job": JOB, "nonsense": 1}, {"payload": {}}])


@given(st.lists(st.one_of(plain_or_nearly, odd), min_size=1, max_size=3))
def test_what_goes_the_short_way_is_what_the_models_make_of_it(given_tasks) -> None:
    plain = plain_tasks(given_tasks)
    if plain is None:
        return

    models = [TaskOfMany.model_validate(one) for one in given_tasks]

    short, long = ([build(NOOP, "room_1", one, text_of(one.payload)) for one in many] for many in (plain, models))
    assert short == long
    assert [one.job for one in plain] == [one.job for one in models]


def test_plain_tasks_do_go_the_short_way() -> None:
    many = [{"job": JOB, "payload": {"n": n}, "id": str(uuid4())} for n in range(3)] + [{"job": JOB}]

    plain = plain_tasks(json.loads(json.dumps(many)))

    assert plain is not None
    assert [one.id for one in plain] == [one.get("id") for one in many]


@pytest.mark.parametrize(
    "odd",
    [
        {"job": JOB, "weight": 2},
        {"job": JOB, "id": "nonsense"},
        {"job": "a\x00b"},
        {"job": JOB, "payload": []},
        {"payload": {}},
        "text",
    ],
)
def test_one_task_that_is_not_plain_takes_all_the_long_way(odd) -> None:
    assert plain_tasks([{"job": JOB}, odd]) is None


def test_ids_that_are_none_but_together_read_as_some_go_the_long_way() -> None:
    both = str(uuid4()) + str(uuid4())

    assert plain_tasks([{"job": JOB, "id": both[:35]}, {"job": JOB, "id": both[35:]}]) is None
    assert plain_tasks([{"job": JOB, "id": ""}, {"job": JOB, "id": both}]) is None


@pytest.mark.parametrize("levels", [64, 65])
def test_a_payload_may_be_as_deep_as_by_itself(levels: int) -> None:
    deep: object = 1
    for _ in range(levels - 1):
        deep = [deep]

    plain = plain_tasks([{"job": JOB}, {"job": JOB, "payload": {"n": deep}}])

    assert (plain is not None) == is_kept({"n": deep}) == (levels == 64)


OUTLINES: list[tuple[type[Request], dict[str, str]]] = [
    (TasksOutline, {}),
    (Submit, {"room": "lab"}),
    (SubmitEach, {"room": "lab"}),
]


@pytest.mark.parametrize("count", [0, MOST_OF_REQUEST + 1])
@pytest.mark.parametrize(("model", "more"), OUTLINES)
def test_the_outlines_tell_of_too_many_tasks_and_of_none(
    model: type[Request], more: dict[str, str], count: int
) -> None:
    with pytest.raises(ValidationFailed, match=r"^tasks: "):
        outline(model, {**more, "tasks": [{"job": JOB}] * count}, "tasks")
