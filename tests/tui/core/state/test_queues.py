"""A queue's line: failed and retrying tasks by what stands, and slots that several queues share told once."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from tests.tui.scene import job, worker
from treadle.wire.jobs import JobItem
from treadle.wire.values import MOST_INTEGER
from treadle.wire.workers import WorkerItem
from treadle_tui.core.state.derived import QueueLinesMaker
from treadle_tui.core.state.queues import QueueRow, all_queues, queue_row, slots_counted_once, summed
from treadle_tui.core.state.workers import worker_row

ITEMS = [WorkerItem.model_validate(worker(name, number, quiet=0, running=[])) for number, name in enumerate("abc")]
WORKERS = {item.id: worker_row(item, NOON) for item in ITEMS}
A, B, C = WORKERS


def queue(name: str, *workers: str, counts: dict[str, int] | None = None, **more: Any) -> QueueRow:
    counts = counts or {}
    row = job(f"lab:tasks:{name}", 1, counts=counts, wave=0, oldest=None, workers=list(workers))
    return queue_row(JobItem.model_validate({**row, **more}), counts, WORKERS)


def test_slots_are_told_in_the_first_line_whose_workers_they_are() -> None:
    lines = slots_counted_once([queue("one", A, B), queue("two", A, B), queue("three", B, C), queue("four")])

    assert [(line.slots, line.new_slots) for line in lines] == [(16, 16), (16, 0), (16, 8), (0, 0)]
    assert sum(line.new_slots for line in slots_counted_once(reversed(lines))) == 24


def test_failed_and_retrying_tasks_are_those_that_stand_so_now() -> None:
    one = queue("one", counts={"failed": 3, "scheduled": 5}, retrying=2)
    two = queue("two", counts={"failed": 1, "scheduled": 1}, retrying=4)

    assert (one.failed, one.retrying) == (3, 2)
    assert two.retrying == 1, "the counts are newer: the others run by now"
    assert queue("due", counts={"pending": 3}, retrying=2).retrying == 2, "in line for its next try"
    every = all_queues([one, two], summed([one.job, two.job]), workers=0, slots=0)
    assert (every.failed, every.retrying) == (4, 3)
    assert one.job.history is not None
    assert every.job.history is not None
    assert every.job.history.failed == [2 * failed for failed in one.job.history.failed]
    assert one.exported()["now"]["retrying"] == 2


def test_what_a_worker_has_claimed_ahead_does_not_run() -> None:
    one = queue("one", A, counts={"running": 8, "claimed": 42})

    assert (one.running, one.claimed, one.slots) == (8, 42, 8)
    two = queue("two", A, counts={"claimed": 1})
    every = all_queues([one, two], summed([one.job, two.job]), workers=1, slots=8)
    assert (every.running, every.claimed) == (8, 43)
    assert one.exported()["now"]["claimed"] == 42


@given(st.lists(st.tuples(st.sampled_from(["job", "gone", "counts", "worker"]), st.integers(0, 3)), max_size=12))
def test_the_lines_that_are_kept_are_those_that_would_be_made_anew(changes: list[tuple[str, int]]) -> None:
    maker = QueueLinesMaker()
    jobs = {str(number): queue(str(number), A, B).job for number in range(3)}
    counts: dict[str, dict[str, int]] = {}
    workers = dict(WORKERS)

    for step, (what, number) in enumerate(changes):
        name, key = str(number), (A, B, C)[number % 3]
        # As with a table, each push makes a new mapping.
        if what == "job":
            jobs = jobs | {name: queue(name, A, *([C] if step % 2 else []), paused=bool(step % 3)).job}
        elif what == "gone":
            jobs = {other: row for other, row in jobs.items() if other != name}
        elif what == "counts":
            counts = counts | {f"lab:tasks:{name}": {"pending": step, "running": number}}
        else:
            quiet = 0 if step % 2 else 900
            item = WorkerItem.model_validate(worker("x", number % 3, quiet=quiet, running=[], concurrency=step + 1))
            workers = workers | {key: worker_row(item, NOON)}

        assert maker.lines(jobs, counts, workers) == QueueLinesMaker().lines(jobs, counts, workers)


def test_counts_that_change_leave_what_all_queues_did_as_it_was_added_up() -> None:
    maker, jobs = QueueLinesMaker(), {name: queue(name, A).job for name in ("one", "two")}
    before = maker.lines(jobs, {}, WORKERS).every

    after = maker.lines(jobs, {"lab:tasks:one": {"pending": 7}}, WORKERS).every

    assert after.pending == before.pending + 7 - queue("one").pending
    assert after.job.history is before.job.history


def test_sums_of_all_queues_may_be_beyond_the_numbers_of_the_protocol() -> None:
    row = job("lab:tasks:one", 1, counts={}, wave=0, oldest=None, workers=[])
    row["stats"]["failed_last_hour"] = row["history"]["completed"][-1] = MOST_INTEGER
    jobs = [JobItem.model_validate(row)] * 2

    every = summed(jobs)

    assert every.stats is not None
    assert every.history is not None
    assert every.stats.failed_last_hour == every.history.completed[-1] == 2 * MOST_INTEGER
