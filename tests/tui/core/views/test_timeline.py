"""A task's life as a rail: what happened when, and how long it took in between."""

from tests.tui.mock import NOON, FrozenClock, MockServer
from tests.tui.scene import at, storied_task, task
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.draw.text import plain
from treadle_tui.core.state.detail import TaskDetail
from treadle_tui.core.views.timeline import timeline


def rail(row: dict[str, object], *runs: dict[str, object]) -> list[str]:
    detail = TaskDetail.model_validate({"id": row["id"], "task": row, "runs": list(runs)})
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
