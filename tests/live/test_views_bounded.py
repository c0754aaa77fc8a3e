"""What observers are sent of schedules and runs is bounded by its characters, and what is left out is named."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import Shop
from tests.schedules.conftest import Ticker
from treadle.wire.schedules import ScheduleItem
from treadle.wire.tasks import RunItem
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.steps import StepReport
from treadle_server.engine.engine import Engine
from treadle_server.live import views
from treadle_server.live.views import JobsView, SchedulesView, TaskView, WorkersView
from treadle_server.services.absences import Absences
from treadle_server.services.rates import Rates
from treadle_server.store.read import runs as read_runs
from treadle_server.store.read import schedules as read_schedules
from treadle_server.store.read import steps as read_steps

START = datetime(2026, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.anyio


async def rows_of(engine: Engine, view: Any) -> list[Any]:
    async with engine.store.read() as connection:
        return [json.loads(row) for row in (await view.read(connection)).by_key.values()]


async def test_an_earlier_runs_traceback_is_left_out_where_all_are_too_long_and_the_last_one_never(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_runs, "MOST_TEXT", 500)
    worker = await shop.worker()
    [task] = await shop.submit()
    for length in (10, 200, 200, 900):
        [claimed] = await shop.claim(worker)
        await shop.run(claimed, "failed", error="x", traceback="t" * length)
        await shop.steer(task, "rerun")
    view = TaskView(task.id, lambda: START)

    [row] = await rows_of(engine, view)

    told = [(len(run.traceback or ""), run.left_out) for run in map(RunItem.model_validate, row["runs"])]
    assert told == [(0, ["error", "traceback"])] * 3 + [(900, None)]


async def test_of_a_task_with_many_runs_the_last_ones_are_sent_with_their_events(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that sleeps has a run for each time; 10,000 at each change held everything up."""
    monkeypatch.setattr(views, "MOST_RUNS", 2)
    worker = await shop.worker()
    [task] = await shop.submit()
    for _ in range(3):
        [claimed] = await shop.claim(worker)
        await shop.run(claimed, "failed", error="x")
        await shop.steer(task, "rerun")
    view = TaskView(task.id, lambda: START)

    [ended] = await rows_of(engine, view)
    await shop.claim(worker)
    [claimed_again] = await rows_of(engine, view)

    for row, told in ((ended, {1, 2}), (claimed_again, {2, 3})):
        assert [run["run_id"] for run in row["runs"]] == sorted(told)
        assert {event["run_id"] for event in row["events"] if event.get("run_id") is not None} == told


async def test_all_that_runs_said_is_sent_where_it_is_not_too_long(engine: Engine, shop: Shop) -> None:
    worker = await shop.worker()
    [task] = await shop.submit()
    for _ in range(2):
        [claimed] = await shop.claim(worker)
        await shop.run(claimed, "failed", error="x", traceback="t" * 200)
        await shop.steer(task, "rerun")

    [row] = await rows_of(engine, TaskView(task.id, lambda: START))

    assert [run["traceback"] for run in row["runs"]] == ["t" * 200] * 2
    assert ["left_out" in run for run in row["runs"]] == [False, False]


async def test_a_schedules_large_payload_is_left_out_and_those_behind_what_all_may_have(
    engine: Engine, shop: Shop, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_schedules, "MOST_SHOWN", 100)
    monkeypatch.setattr(read_schedules, "MOST_TEXT", 250)
    await shop.register()
    for name, length in (("first", 70), ("second", 70), ("third", 1_000), ("fourth", 70)):
        clock.advance(1)
        payload = json.dumps({"text": "x" * length})
        await engine.run(Ticker(shop, clock, name=name).command(payload=payload, template='{"priority":3}'))

    rows = await rows_of(engine, SchedulesView(None, tokens_at=engine.tokens_at))

    told = {row["name"]: ScheduleItem.model_validate(row) for row in rows}
    assert {name: item.left_out for name, item in told.items()} == {
        "first": ["payload", "options"], "second": None, "third": ["payload"], "fourth": None,
    }  # fmt: skip
    assert told["third"].payload == told["first"].options == {}
    assert (told["third"].options, told["second"].payload) == ({"priority": 3}, {"text": "x" * 70})


async def three_steps_of(shop: Shop) -> Task:
    """Return a task that has kept its first, second and third step."""
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    for name in ("first", "second", "third"):
        await shop.report(task, "step", step=StepReport(name=name), result="1")
    return task


async def test_f4_a_tasks_last_steps_are_among_its_events(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F4: the dashboard draws them into the task's timeline."""
    monkeypatch.setattr(views, "MOST_STEPS", 2)
    task = await three_steps_of(shop)

    [row] = await rows_of(engine, TaskView(task.id, lambda: START))

    told = [(event["step"], event["status"], event["run_id"]) for event in row["events"] if event["kind"] == "step"]
    assert told == [("second", "call", 0), ("third", "call", 0)]


async def test_f4_of_a_task_with_many_steps_only_the_last_are_read(engine: Engine, shop: Shop) -> None:
    """F4: with 5,000 each change of a task that somebody looked at held the server up for 0.1 s."""
    task = await three_steps_of(shop)

    async with engine.store.read() as connection:
        read = [await read_steps.outline(connection, task.seq, most=most) for most in (2, None)]

    assert [[step.name for step in steps] for steps in read] == [["second", "third"], ["first", "second", "third"]]


async def test_of_more_jobs_and_workers_than_observers_are_shown_the_total_is_that_of_all(
    engine: Engine, shop: Shop, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the number of those that were sent, so that the rest seemed not to exist."""
    monkeypatch.setattr(views, "MOST_SHOWN", 2)
    await shop.worker(*[await shop.register(name) for name in ("first", "second", "third")])
    await shop.worker()
    await shop.worker()
    jobs = JobsView(None, rates=Rates(clock))
    workers = WorkersView(None, lost_after=60.0, absences=Absences(engine.hub, None))

    async with engine.store.read() as connection:
        read = [await view.read(connection) for view in (jobs, workers)]

    assert [len(rows.by_key) for rows in read] == [2, 2]
    assert [rows.total for rows in read] == [4, 3]
