"""What is raised, for how long, and what the reader has dismissed."""

from typing import Any

from tests.tui.happenings import schedule
from tests.tui.mock import NOON
from tests.tui.scene import at, job, worker
from treadle.wire.jobs import JobItem
from treadle.wire.schedules import ScheduleItem
from treadle.wire.workers import WorkerItem
from treadle_tui.core.state.attention import Alert, Dismissed, alerts
from treadle_tui.core.state.derived import QueueLinesMaker
from treadle_tui.core.state.schedules import ScheduleRow
from treadle_tui.core.state.workers import WorkerRow, worker_row


def row(number: int, name: str | None, *, quiet: float, **more: Any) -> WorkerRow:
    return worker_row(WorkerItem.model_validate(worker(name, number, quiet=quiet, running=[], **more)), NOON)


def raised(*rows: WorkerRow) -> list[str]:
    return [alert.subject for alert in alerts([], rows, now=NOON)]


def test_tasks_that_wait_for_a_pool_of_which_no_worker_is_are_told_like_a_queue_that_nobody_serves() -> None:
    free, tpu = row(1, "free", quiet=1), row(2, "tpu", quiet=1, pool="tpu")
    waits = {"gpu": at(120), "tpu": at(30)}
    counts = {"pending": 3}
    one = job("lab:tasks:train", 1, counts=counts, wave=0, oldest=120, workers=[free.id, tpu.id])

    def told(*workers: WorkerRow, **more: Any) -> list[tuple[str, str, str]]:
        item = JobItem.model_validate({**one, "oldest_pending_of_pools": waits, **more})
        lines = QueueLinesMaker().lines({item.id: item}, {}, {each.id: each for each in workers})
        return [(alert.severity, alert.subject, alert.text) for alert in alerts(lines.troubled, [], now=NOON)]

    assert told(free, tpu) == [("bad", "train", "no live worker of pool gpu, 2m00")]
    assert told(free) == [("bad", "train", "no live worker of pool gpu, tpu, 2m00")]
    assert told(free, tpu, oldest_pending_of_pools={"tpu": at(30)}) == []
    assert told(free, tpu, counts={"running": 1}) == []
    assert told(free, tpu, paused=True) == [("warn", "train", "paused, 3 wait")]


def test_a_lost_worker_is_told_until_another_of_its_name_serves() -> None:
    lost = row(1, "web", quiet=70, state="lost")

    assert raised(lost) == ["web"]
    assert raised(lost, row(2, "web", quiet=1)) == []
    assert raised(lost, row(2, "web", quiet=1, group="lab")) == ["web"]
    assert raised(lost, row(2, "web", quiet=90)) == ["web", "web"]


def test_a_schedule_whose_last_tick_made_no_task_is_told_until_one_does() -> None:
    """Its limit was deleted, or its zone is not known here: it looked as if it only waited for its next tick."""
    item = schedule(1, "nightly", due=40, status="completed")
    why = "there is no limit 'api' in room lab: treadle limits set api makes it"

    def told(**more: Any) -> list[tuple[str, str, str, str]]:
        row = ScheduleRow(ScheduleItem.model_validate(item | more))
        found = alerts([], [], schedules=[row], now=NOON)
        return [(row.state(NOON), alert.severity, alert.subject, alert.text) for alert in found]

    assert told(skipped_at=at(20), skipped_why=why) == [("skips", "warn", "nightly", f"skipped: {why}")]
    held = told(skipped_at=at(20), skipped_for="a", last_at=None)
    assert held == [("skips", "warn", "nightly", "skipped: task a held the key")]
    assert told(skipped_at=at(300), skipped_why=why) == []
    assert told(skipped_at=at(20), skipped_why=why, last_status="running") == []
    assert told(skipped_at=at(20), skipped_why=why, paused=True) == []


def test_a_lost_worker_without_a_name_has_no_namesake() -> None:
    assert len(raised(row(1, None, quiet=70, state="lost"), row(2, None, quiet=1))) == 1


def test_ten_minutes_after_it_was_lost_a_worker_is_no_news() -> None:
    assert raised(row(1, "web", quiet=60 + 599, state="lost")) == ["web"]
    assert raised(row(1, "web", quiet=60 + 600, state="lost")) == []


def test_what_was_dismissed_is_told_when_it_grows_worse_or_comes_again() -> None:
    late, lost = (Alert(severity, "web", "", "worker", "1") for severity in ("warn", "bad"))
    dismissed = Dismissed()
    dismissed.add(late)

    assert dismissed.left([late]) == []
    assert dismissed.left([lost]) == [lost]
    assert dismissed.left([late]) == [late]
