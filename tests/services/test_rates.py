"""What is measured of each queue, compared with what a list of everything that happened gives."""

import random
from datetime import timedelta
from math import ceil
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import FakeClock
from tests.domain.made import new_task
from tests.engine.conftest import ADMIN, Shop
from treadle.wire.estimate import seconds_to_start
from treadle.wire.jobs import JobItem, Percentiles
from treadle.wire.status import Outcome, Reason, Status
from treadle.wire.tasks import TaskItem
from treadle_server.domain.jobs import Job
from treadle_server.domain.tasks import Run, Task
from treadle_server.engine.commands import ReportMany, RunReport
from treadle_server.engine.hub import Batch, Change
from treadle_server.services.histogram import Histogram
from treadle_server.services.rates import STEPS, Rates

pytestmark = pytest.mark.anyio

NUM = new_task().job_num


def a_job(clock: FakeClock, *, fair: str | None = None) -> Job:
    return Job(NUM, "j", "lab", "tasks", "add", "{}", 1, "{}", clock.now(), fair=fair)  # type: ignore[arg-type]


def batch(clock: FakeClock, *changes: tuple[Task, Status | None], runs: tuple[Run, ...] = ()) -> Batch:
    return Batch(at=clock.now(), tasks=[Change(*change) for change in changes], runs=list(runs))


def started(clock: FakeClock, *, due: float = 0, **fields: Any) -> Task:
    """Return a task that starts now and was due so many seconds ago."""
    fields = {"status": Status.RUNNING, "run_id": 0, "started_at": clock.now(), **fields}
    return new_task(due_at=clock.now() - timedelta(seconds=due), **fields)


def test_what_is_put_in_and_what_ends_is_counted_in_steps_of_ten_seconds_for_five_minutes(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)
    rates.on_commit(batch(clock, (new_task(), None), (new_task(), None)))
    rates.on_commit(batch(clock, (new_task(status=Status.COMPLETED), Status.RUNNING)))
    rates.on_commit(batch(clock, (new_task(status=Status.FAILED), Status.RUNNING)))
    rates.on_commit(batch(clock, (new_task(status=Status.COMPLETED), Status.FAILED)))
    clock.advance(20)
    rates.on_commit(batch(clock, (new_task(status=Status.COMPLETED), Status.PAUSED)))

    history = rates.of(job)["history"]
    assert history["step_seconds"] == 10
    assert history["submitted"] == [0] * (STEPS - 3) + [2, 0, 0]
    assert history["completed"] == [0] * (STEPS - 3) + [1, 0, 1]
    assert history["failed"] == [0] * (STEPS - 3) + [1, 0, 0]

    clock.advance(10 * STEPS)
    assert rates.roll()
    assert set(rates.of(job)["history"]["completed"]) == {0}
    assert rates.of(job)["stats"]["failed_last_hour"] == 1
    clock.advance(3600)
    assert rates.roll()
    assert rates.of(job)["stats"]["failed_last_hour"] == 0
    clock.advance(10)
    assert not rates.roll()


def test_an_hour_in_minutes_and_a_day_in_half_hours_are_kept_of_what_ended(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)
    assert rates.of(job)["past"] == []
    rates.on_commit(batch(clock, (new_task(status=Status.COMPLETED), Status.RUNNING)))
    assert rates.of(job)["past"] == [], "the step under way is not in it yet"

    clock.advance(10)
    rates.on_commit(batch(clock, (new_task(status=Status.FAILED), Status.RUNNING)))
    clock.advance(1800)
    assert rates.roll()
    clock.advance(10)
    rates.roll()

    hour, day = rates.of(job)["past"]
    assert (hour["step_seconds"], len(hour["completed"]), sum(hour["completed"]), sum(hour["failed"])) == (60, 60, 1, 1)
    assert (day["step_seconds"], len(day["completed"]), sum(day["completed"]), sum(day["failed"])) == (1800, 48, 1, 1)
    assert hour["completed"].index(1) in {28, 29}
    assert day["completed"][-2] == 1
    clock.advance(3600)
    assert rates.roll()
    [only] = rates.of(job)["past"]
    assert (only["step_seconds"], sum(only["completed"])) == (1800, 1)
    clock.advance(86_400)
    rates.roll()
    assert rates.of(job)["past"] == []


def test_failures_of_the_hour_before_the_servers_start_count_as_they_grow_old(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)
    at = clock.now()
    rates.recall(
        [
            (NUM, True, at + timedelta(seconds=1)),
            (NUM, True, at - timedelta(minutes=5)),
            (NUM, False, at - timedelta(minutes=30)),
            (NUM, True, at - timedelta(minutes=61)),
        ]
    )
    rates.on_commit(batch(clock, (new_task(status=Status.FAILED), Status.RUNNING)))

    def told() -> tuple[int, int]:
        stats = rates.of(job)["stats"]
        return stats["failed_last_hour"], stats["retried_last_hour"]

    assert told() == (3, 1)
    clock.advance(40 * 60)
    rates.roll()
    assert told() == (3, 0)
    clock.advance(16 * 60)
    rates.roll()
    assert told() == (2, 0)


def test_only_a_task_that_goes_back_after_its_run_failed_or_was_lost_is_a_retry(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)
    at = clock.now()

    def ended(outcome: Outcome, status: Status, was: Status) -> Batch:
        run = Run(1, 0, outcome, Reason.ERROR, None, None, None, None, at, at - timedelta(seconds=3), at)
        return batch(clock, (new_task(seq=1, status=status), was), runs=(run,))

    rates.on_commit(ended(Outcome.FAILED, Status.SCHEDULED, Status.RUNNING))
    rates.on_commit(ended(Outcome.EXCEPTION, Status.PENDING, Status.CLAIMED))
    for outcome, status, was in (
        (Outcome.RETURNED, Status.PENDING, Status.CLAIMED),
        (Outcome.PAUSED, Status.PAUSED, Status.RUNNING),
        (Outcome.CANCELLED, Status.CANCELLED, Status.RUNNING),
    ):
        rates.on_commit(ended(outcome, status, was))
    rates.on_commit(batch(clock, (new_task(status=Status.PENDING), Status.SCHEDULED)))
    rates.on_commit(batch(clock, (new_task(status=Status.PENDING), Status.FAILED)))

    stats = rates.of(job)["stats"]
    assert (stats["retried_last_hour"], stats["failed_last_hour"], stats["run"]["n"]) == (2, 0, 1)
    assert stats["run"]["p50"] == pytest.approx(3, rel=0.05)
    assert stats["completed_run"] == Percentiles().model_dump()


@given(
    durations=st.lists(st.floats(0, 1e7, allow_nan=False), min_size=1, max_size=200),
    shares=st.lists(st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]), min_size=1, max_size=4, unique=True),
)
def test_a_percentile_is_within_five_percent_of_the_duration_of_its_rank(durations: list[float], shares: list[float]):
    """The bound that treadle.wire documents."""
    histogram = Histogram(3)
    for i, duration in enumerate(durations):
        histogram.add(duration)
        if i in {3, 40}:
            histogram.roll(1)
    ordered = sorted(durations)

    n, found = histogram.percentiles(sorted(shares))

    assert n == len(durations)
    for share, value in zip(sorted(shares), found, strict=True):
        exact = ordered[ceil(share * n) - 1]
        assert value is not None
        assert abs(value - exact) <= max(0.049 * exact, 0.001)


def test_durations_older_than_the_window_are_forgotten_and_without_any_there_are_no_percentiles(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)
    rates.on_commit(batch(clock, (started(clock, due=2), Status.CLAIMED)))
    assert rates.of(job)["stats"]["wait"]["n"] == 1

    clock.advance(600)
    rates.roll()
    assert rates.of(job)["stats"]["wait"]["n"] == 1
    clock.advance(300)
    rates.roll()

    assert rates.of(job)["stats"]["wait"] == Percentiles().model_dump()
    assert rates.of(job)["stats"]["since"] < clock.now()


def test_a_task_that_is_asked_to_pause_or_runs_again_adds_no_wait(clock: FakeClock):
    rates, job = Rates(clock), a_job(clock)

    rates.on_commit(batch(clock, (started(clock, cancel_requested=True), Status.RUNNING)))
    rates.on_commit(batch(clock, (started(clock, run_id=1), Status.CLAIMED)))

    assert rates.of(job)["stats"]["wait"]["n"] == 0
    assert rates.of(job)["stats"]["starts_per_second"] == 1


@pytest.mark.parametrize("each", [False, True], ids=["few", "each"])
@pytest.mark.parametrize("together", ["apart", "one commit", "one report"])
async def test_a_tasks_life_is_counted_once_however_it_is_reported(
    shop: Shop, clock: FakeClock, each: bool, together: str
):
    """By the fast path and the slow path, on both databases: what the hub tells differs, what happened does not."""
    engine = shop.engine
    engine.hub.each = each
    rates = Rates(clock)
    engine.hub.listen(rates.on_commit)
    worker = await shop.worker()
    await shop.submit(4)
    clock.advance(8)
    claimed = await shop.claim(worker, 4)

    def reports(*kinds: str, **details: Any) -> ReportMany:
        said = [(t.id, t.run_id, RunReport(kind=kind, **details)) for t in claimed[1:] for kind in kinds]
        return ReportMany(principal=ADMIN, worker_id=worker, reports=said)

    match together:
        case "apart":
            await engine.run(reports("started"))
            clock.advance(3)
            await engine.run(reports("completed"))
        case "one commit":
            await engine.run(reports("started", "completed"))
        case _:
            await engine.run(reports("completed", starts=True))
    await shop.run(claimed[0], "failed", error="boom")

    async with engine.store.read() as connection:
        from treadle_server.store.read import jobs as read_jobs

        job = await read_jobs.by_name(connection, shop.job, room="@global")
    measured = rates.of(job)
    stats, history = measured["stats"], measured["history"]
    assert (sum(history["submitted"]), sum(history["completed"]), sum(history["failed"])) == (4, 3, 1)
    assert (stats["wait"]["n"], stats["run"]["n"], stats["failed_last_hour"]) == (4, 4, 1)
    # What failed at once tells nothing of how long a run takes.
    assert stats["completed_run"]["n"] == 3
    assert stats["completed_run"]["p50"] == pytest.approx(3 if together == "apart" else 0, rel=0.05)
    assert stats["wait"]["p50"] == pytest.approx(8, rel=0.05)
    assert stats["run"]["p90"] == pytest.approx(3 if together == "apart" else 0, rel=0.05)
    assert stats["starts_per_second"] == pytest.approx(4 / max(1, 11 if together == "apart" else 8), rel=0.4)


def an_item(clock: FakeClock, rates: Rates, *, fair: bool, **fields: Any) -> JobItem:
    """Return the job as an observer gets it."""
    data = {
        "id": "j", "room_id": "lab", "category": "tasks", "name": "add", "full_name": "lab:tasks:add", "schema": {},
        "created_at": clock.now(), "slots": 1, "fair": "room" if fair else None,
        **rates.of(a_job(clock, fair="room" if fair else None)), **fields,
    }  # fmt: skip
    return JobItem.model_validate(data)


def waiting(clock: FakeClock, position: int, room: str = "lab", **fields: Any) -> TaskItem:
    data = {
        "id": "t", "job_name": "lab:tasks:add", "room_id": room, "status": "pending", "created_at": clock.now(),
        "scheduled_at": clock.now(), "queue_position": position, **fields,
    }  # fmt: skip
    return TaskItem.model_validate(data)


@settings(max_examples=100, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    starts=st.integers(0, 120),
    span=st.integers(1, 500),
    fair=st.booleans(),
    position=st.integers(1, 1000),
)
def test_an_estimated_start_is_the_position_by_the_pace_of_a_list_of_all_starts_behaviour_4(
    seed: int, starts: int, span: int, fair: bool, position: int
):
    """TUI.md 4: brute force knows every start; the server only its counts."""
    clock, draw = FakeClock(), random.Random(seed)
    clock.advance(draw.random() * 10)
    began = clock.monotonic()
    rates = Rates(clock)
    happened: list[tuple[float, str]] = []
    for after in sorted(draw.uniform(0, span) for _ in range(starts)):
        clock.advance(began + after - clock.monotonic())
        lane = draw.choice([1, 2])
        room = {1: "lab", 2: "den"}[lane] if fair else "lab"
        happened.append((clock.monotonic(), room))
        rates.on_commit(batch(clock, (started(clock, lane=lane, room=room), Status.CLAIMED)))
    clock.advance(began + span - clock.monotonic())
    rates.roll()
    item = an_item(clock, rates, fair=fair)

    for room in ("lab", "den", "yard"):
        mine = [at for at, where in happened if not fair or where == room]
        pace = brute_pace(mine, clock.monotonic(), began)
        estimate = seconds_to_start(waiting(clock, position, room), item)
        assert estimate == (None if pace is None else pytest.approx(position / pace))


def brute_pace(starts: list[float], now: float, began: float) -> float | None:
    """Return the starts per second by docs/protocol.md: of the last full minute, of all full steps, of this step."""
    step = now // 10 * 10
    kept = [at for at in starts if at >= step - 290]
    if not kept:
        return None
    minute = [at for at in kept if step - 60 <= at < step]
    full = [at for at in kept if at < step]
    if len(minute) >= 10:
        return len(minute) / min(60, step - began)
    if full:
        return len(full) / min(290, step - began)
    return len(kept) / max(1, round(min(now - step, now - began)))


def test_a_start_is_never_estimated_sooner_than_the_slots_can_do_behaviour_4(clock: FakeClock):
    """Workers that ran a hundred a second a moment ago are gone; the one slot that is left takes ten seconds a run."""
    rates = Rates(clock)
    for _ in range(100):
        rates.on_commit(batch(clock, (started(clock), Status.CLAIMED)))
    item = an_item(clock, rates, fair=False, slots=1)
    assert item.stats is not None
    stats = item.stats.model_copy(update={"run": Percentiles(n=9, mean=10.0)})

    assert seconds_to_start(waiting(clock, 5), item.model_copy(update={"stats": stats})) == 40


@pytest.mark.parametrize(
    ("job", "task"),
    [
        ({"paused": True}, {}),
        ({"slots": 0}, {}),
        ({"stats": None}, {}),
        ({}, {"status": "scheduled"}),
        ({}, {"queue_position": None}),
        ({}, {"blocked_by": ["x"]}),
    ],
)
def test_a_start_is_not_estimated_when_nobody_can_tell_behaviour_4(
    clock: FakeClock, job: dict[str, Any], task: dict[str, Any]
):
    rates = Rates(clock)
    rates.on_commit(batch(clock, (started(clock), Status.CLAIMED)))
    assert seconds_to_start(waiting(clock, 5), an_item(clock, rates, fair=False)) == 5

    assert seconds_to_start(waiting(clock, 5, **task), an_item(clock, rates, fair=False, **job)) is None


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"blocked_by": ["limit:lab/api"], "opens": 90}, 90),
        ({"blocked_by": ["limit:lab/api=a"], "opens": -3}, 0),
        ({"blocked_by": ["limit:lab/api"]}, None),
        ({"blocked_by": ["holder", "limit:lab/api"], "opens": 90}, None),
    ],
)
def test_what_waits_for_a_limit_is_estimated_by_its_rate_whatever_the_queues_pace(
    clock: FakeClock, told: dict[str, Any], expected: float | None
):
    opens = told.pop("opens", None)
    at = None if opens is None else clock.now() + timedelta(seconds=opens)
    task = waiting(clock, 50, limit_opens_at=at, **told)
    item = an_item(clock, Rates(clock), fair=False)

    assert seconds_to_start(task, item, clock.now()) == expected
    assert seconds_to_start(task, item.model_copy(update={"slots": 0}), clock.now()) is None
