"""How old what is shown may be: by the server's own word, and by its silence."""

from typing import Any

import pytest

from tests.tui.mock import FrozenClock
from tests.tui.scene import at, job, worker
from treadle.wire.tasks import TaskItem
from treadle_tui.core.state.model import Model

PUSH = {"push": "snapshot", "seq": 1, "total": 1}


@pytest.fixture
def model(clock: FrozenClock) -> Model:
    """Has heard 5 ms ago of a server that has no tasks."""
    model = Model(clock)
    model.opened({})
    model.heard(0.005)
    model.tasks.expect("t")
    push(model, "snapshot")
    return model


def push(model: Model, kind: str, **more: Any) -> None:
    fields = {"push": kind, "sub": "t", "topic": "tasks", "seq": 1, "rows": [], "total": 0, "order": []}
    model.apply({**fields, **more})


def test_3_what_has_just_come_says_nothing_of_its_age(model: Model, clock: FrozenClock) -> None:
    assert model.age("tasks") is None

    clock.advance(0.9)
    assert model.age("tasks") is None


def test_3_a_server_that_says_that_nothing_was_committed_makes_what_is_old_new(
    model: Model, clock: FrozenClock
) -> None:
    clock.advance(30)
    model.heard(0.005)

    assert model.age("tasks") is None


def test_3_what_was_committed_and_not_sent_yet_makes_it_as_old_as_that(model: Model, clock: FrozenClock) -> None:
    clock.advance(5)
    model.heard(0.005, {"t": 3.4, "other": 9.0})
    assert model.age("tasks") == pytest.approx(3.405)

    clock.advance(0.5)
    assert model.age("tasks") == pytest.approx(3.905)


def test_3_a_push_makes_it_as_old_as_what_it_does_not_show(model: Model, clock: FrozenClock) -> None:
    clock.advance(5)
    push(model, "delta", frame=1, prev=0, behind=1.9)
    assert model.age("tasks") == pytest.approx(1.905)

    push(model, "delta", frame=2, prev=1)
    assert model.age("tasks") is None


def test_3_a_slow_connection_makes_everything_as_old_as_its_answers(model: Model, clock: FrozenClock) -> None:
    clock.advance(5)
    model.heard(1.7)

    assert model.age("tasks") == pytest.approx(1.7)


def test_3_while_there_is_no_server_it_grows_older(model: Model, clock: FrozenClock) -> None:
    model.lost("gone")
    clock.advance(40)

    assert model.age("tasks") == pytest.approx(40.005)


def test_3_of_several_topics_the_oldest_counts_and_what_never_came_has_no_age(model: Model, clock: FrozenClock) -> None:
    assert model.age("jobs") is None

    clock.advance(5)
    assert model.age("jobs", "tasks") == pytest.approx(5.005)


@pytest.fixture
def working(model: Model) -> Model:
    """Has a busy worker too, whose heartbeat was a second ago."""
    model.workers.expect("w")
    model.apply({**PUSH, "sub": "w", "topic": "workers", "rows": [worker("w", 1, quiet=1, running=["a task"])]})
    assert health(model) == "busy"
    return model


def test_7_what_came_over_a_slow_connection_is_as_old_when_that_breaks_as_before(
    working: Model, clock: FrozenClock
) -> None:
    clock.advance(8)
    working.heard(8.2)
    assert working.age("workers") == pytest.approx(8.005)

    clock.advance(2)
    working.lost("gone")

    assert working.data_age() == working.age("workers") == pytest.approx(10.005)


def test_7_a_connection_that_told_nothing_new_makes_nothing_younger(working: Model, clock: FrozenClock) -> None:
    working.lost("gone")
    clock.advance(60)
    working.opened({})
    working.lost("gone again")

    assert working.data_age() == pytest.approx(60.005)


def health(model: Model) -> str:
    model.tick()
    (row,) = model.worker_rows().values()
    return row.health


def test_5_7_a_worker_whose_row_is_old_is_not_late_for_that_after_a_break_either(
    working: Model, clock: FrozenClock
) -> None:
    working.lost("gone")
    clock.advance(40)
    assert health(working) == "busy"

    working.opened({})
    assert health(working) == "busy", "nothing new was heard of it yet"

    working.workers.expect("again")
    row = worker("w", 1, quiet=1, running=["a task"])
    working.apply({**PUSH, "sub": "again", "topic": "workers", "rows": [row]})
    assert health(working) == "late", "this is the server's word of now"


def test_5_7_a_worker_is_judged_by_what_a_server_that_lags_shows_of_it(working: Model, clock: FrozenClock) -> None:
    clock.advance(20)
    working.heard(0.005, {"w": 19.5})
    assert health(working) == "busy"

    working.heard(0.005)
    assert health(working) == "late"


def test_4_what_waits_for_the_rate_of_a_limit_starts_when_that_opens_if_somebody_serves_it(
    model: Model, clock: FrozenClock
) -> None:
    name = "lab:tasks:ask"
    serving = worker("w", 1, quiet=1, running=[], jobs=[name])
    row = job(name, 1, counts={"pending": 40}, wave=1, oldest=5, workers=[serving["id"]])
    for topic, table, rows in (("jobs", model.jobs, [row]), ("workers", model.workers, [serving])):
        table.expect(topic)
        model.apply({**PUSH, "sub": topic, "topic": topic, "rows": rows})
    waits = {
        "id": "t", "job_name": name, "room_id": "lab", "status": "pending", "created_at": at(5), "scheduled_at": at(5),
        "queue_position": 40, "blocked_by": ["limit:lab/api"],
    }  # fmt: skip

    def told(**more: Any) -> float | None:
        return model.seconds_to_start(TaskItem.model_validate({**waits, **more}))

    assert told(limit_opens_at=at(-90)) == 90
    assert told() is None
    assert told(blocked_by=["holder", "limit:lab/api"], limit_opens_at=at(-90)) is None
    model.jobs.expect("again")
    model.apply({**PUSH, "sub": "again", "topic": "jobs", "rows": [{**row, "paused": True}]})
    assert told(limit_opens_at=at(-90)) is None
