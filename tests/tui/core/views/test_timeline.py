"""A task's life as a rail: what happened when, and how long it took in between."""

from collections.abc import Sequence

from tests.tui.mock import NOON, FrozenClock, MockServer
from tests.tui.scene import at, storied_task, task
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import plain
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.views.timeline import timeline


def rail(row: dict[str, object], *runs: dict[str, object], events: Sequence[dict[str, object]] = ()) -> list[str]:
    told = {"id": row["id"], "task": row, "runs": list(runs), "events": list(events)}
    detail = TaskDetail.model_validate(told)
    return [plain(line) for line in timeline(detail, NOON, UNICODE)]


def test_a_task_that_never_ran_is_told_from_its_creation_to_now() -> None:
    assert rail(task(1, age=48, queue_position=3)) == [
        "11:59:12 ○ created",
        "         │ waits 48s             ━━━━━━━━━━━━",
        "12:00:00 ○ pending, position 3",
        "12:00:00 └ now",
    ]


def test_a_retry_that_is_waited_for_is_a_back_off() -> None:
    run = {"task_id": "t", "run_id": 0, "status": "failed", "reason": "error", "error": "ValueError: no",
           "claimed_at": at(20), "started_at": at(20), "ended_at": at(5)}  # fmt: skip
    told = rail(task(1, age=30, status="scheduled", next_retry_at=at(-9), retry_count=1), run)

    assert told[1:] == [
        "         │ waited 10s            ━━━━━━━━",
        "11:59:40 ● run 0 on the server",
        "         │ ran 15s               ━━━━━━━━━━━━",
        "11:59:55 ✗ failed: error",
        "         │ ValueError: no",
        "         │ back-off 5.0s         ━━━━",
        "12:00:00 ↻ retry in 9s",
        "12:00:00 └ now",
    ]


def test_what_was_out_of_retries_and_was_run_again_had_no_back_off() -> None:
    """It was told as one, however long it had stood failed until somebody came."""
    runs = [
        {"task_id": "t", "run_id": number, "status": "failed", "reason": "error", "error": "ValueError: no",
         "claimed_at": at(ago), "started_at": at(ago), "ended_at": at(ago - 1)}
        for number, ago in enumerate((100, 90, 40, 30))
    ]  # fmt: skip
    told = rail(task(1, age=101, status="failed", completed_at=at(29), max_retries=1, retry_count=1), *runs)

    between = [" ".join(line.split()[1:-1]) for line in told if "back-off" in line or " failed " in line]
    assert between == ["back-off 9.0s", "failed 49s", "back-off 9.0s"]


def test_what_went_on_between_two_runs_is_told_by_how_the_first_one_ended(
    server: MockServer, clock: FrozenClock
) -> None:
    key = storied_task(server)

    told = [" ".join(line.split()[1:3]) for line in rail(server.tasks[key], *server.runs[key]) if "│" in line]

    assert told == [
        "waited 2.0s", "to start", "ran 12s", "ValueError: frame", "back-off 5.0s", "to start", "ran 34s",
        "requeued 18s", "to start", "runs 21s",
    ]  # fmt: skip


def test_a_cancel_before_the_first_run_ends_the_rail() -> None:
    told = rail(task(1, age=30, status="cancelled", completed_at=at(10), reason="cancelled"))

    assert told[1:3] == ["         │ waited 20s            ━━━━━━━━━━━━", "11:59:50 ⊘ cancelled"]


def suspended(run_id: int, *, claimed: float, ended: float) -> dict[str, object]:
    times = {"claimed_at": at(claimed), "started_at": at(claimed), "ended_at": at(ended)}
    return {"task_id": "t", "run_id": run_id, "status": "suspended", "reason": "suspended", **times}


def step(name: str, kind: str, run_id: int, when: float) -> dict[str, object]:
    return {"at": at(when), "kind": "step", "run_id": run_id, "status": kind, "step": name}


def test_f4_steps_are_told_where_they_were_kept_and_a_message_where_it_came() -> None:
    """F4: those of a run within it; what was received while nothing ran between two."""
    told = rail(
        task(1, age=60, status="scheduled", reason="suspended", scheduled_at=at(-9)),
        suspended(0, claimed=60, ended=50),
        suspended(1, claimed=20, ended=10),
        events=[step("plan", "call", 0, 55), step("approval", "receive", 0, 21), step("rest", "receive", 1, 10)],
    )

    assert [line[9:].split("  ")[0] for line in told] == [
        "○ created",
        "│ waited 0ms",
        "● run 0 on the server",
        "→ plan",
        "│ ran 10s",
        "◷ suspended",
        "│ asleep 30s",
        "→ message approval",
        "● run 1 on the server",
        "→ waits for rest",
        "│ ran 10s",
        "◷ suspended",
        "│ asleep 10s",
        "◷ asleep",
        "└ now",
    ]


def test_steps_that_were_not_sent_are_counted_before_the_first_that_was() -> None:
    told = rail(
        task(1, age=60, status="scheduled", reason="suspended", scheduled_at=at(-9), steps=302),
        suspended(0, claimed=60, ended=50),
        suspended(1, claimed=20, ended=10),
        events=[step("plan", "call", 1, 12), step("rest", "receive", 1, 10)],
    )

    assert told[7:10] == ["11:59:48 … 300 earlier steps not shown", "11:59:48 → plan", "11:59:50 → waits for rest"]


def test_steps_of_which_none_was_sent_end_nothing() -> None:
    told = rail(task(1, age=60, status="running", steps=302), suspended(0, claimed=60, ended=50))

    assert "not shown" not in " ".join(told)


def test_runs_that_were_not_sent_are_counted_with_their_steps_before_the_first_that_was() -> None:
    """F4: a task that sleeps has a run for each time; one with 10,000 froze the dashboard for minutes."""
    told = rail(
        task(1, age=60, status="scheduled", reason="suspended", scheduled_at=at(-9), steps=302),
        suspended(400, claimed=20, ended=10),
        events=[step("plan", "call", 399, 30), step("rest", "receive", 400, 10)],
    )

    assert told[:5] == [
        "11:59:00 ○ created",
        "11:59:40 … 400 earlier runs not shown",
        "11:59:40 ● run 400 on the server",
        "11:59:50 … 301 earlier steps not shown",
        "11:59:50 → waits for rest",
    ]
