"""Whether a worker is well, beat by beat, and what it runs against what is usual."""

from datetime import timedelta

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import worker
from treadle.wire.jobs import Percentiles
from treadle.wire.status import WorkerState
from treadle.wire.workers import WorkerItem
from treadle_tui.core.state.workers import BEATS_SHOWN, Beats, Overdue, RunRow, worker_row


def item(*, quiet: float = 0.0, busy: bool = True) -> WorkerItem:
    return WorkerItem.model_validate(worker("w", 1, quiet=quiet, running=["t"] if busy else []))


def strip(beats: Beats, now_item: WorkerItem) -> str:
    row = worker_row(now_item, NOON, beats=beats.of(now_item.id))
    return "".join("|" if came else "." for came in row.beats)


def test_5_each_expected_beat_has_a_cell_and_those_that_did_not_come_are_seen() -> None:
    beats = Beats()

    for quiet in (20, 18, 16, 9.5, 7.5):  # Between 16 and 9.5 two did not come; since 7.5 three are due.
        beats.note([item(quiet=quiet)])

    assert strip(beats, item(quiet=7.5)) == "|||..||..."


def test_5_a_worker_that_gets_work_is_not_blamed_for_its_idle_pace() -> None:
    beats = Beats()

    beats.note([item(quiet=17, busy=False)])
    beats.note([item(quiet=2.2, busy=True)])

    assert strip(beats, item(quiet=1)) == "||"


def test_7_a_worker_is_not_blamed_for_beats_of_a_time_in_which_no_server_was_there() -> None:
    beats = Beats()
    for quiet in (44, 42, 40):
        beats.note([item(quiet=quiet)])

    beats.break_off()
    assert strip(beats, item(quiet=40))
    beats.note([item(quiet=2)])
    beats.note([item(quiet=0)])

    assert strip(beats, item(quiet=0)) == "||"


def test_the_strip_is_as_long_as_it_is_wide_however_long_one_watches() -> None:
    beats = Beats()
    for quiet in range(500, 0, -2):
        beats.note([item(quiet=quiet)])

    assert strip(beats, item(quiet=0.5)) == "|" * BEATS_SHOWN
    assert strip(beats, item(quiet=1e6)) == "." * BEATS_SHOWN


def test_5_once_late_a_worker_is_never_online_again_without_a_beat() -> None:
    overdue = Overdue()
    busy = item(quiet=6)
    overdue.note([worker_row(busy, NOON)])

    # Its leases have ended: of an idle worker no heartbeat would be due for long.
    robbed = busy.model_copy(update={"running": [], "beat_seconds": 15.0})
    assert worker_row(robbed, NOON).health == "online"
    assert worker_row(robbed, NOON, was_late=overdue.includes(robbed)).health == "late"
    overdue.note([worker_row(robbed, NOON, was_late=overdue.includes(robbed))])
    assert overdue.includes(robbed)

    beaten = robbed.model_copy(update={"last_heartbeat": NOON})
    assert worker_row(beaten, NOON, was_late=overdue.includes(beaten)).health == "online"


def test_5_a_worker_whose_socket_broke_is_away_at_once_and_serves_nobody() -> None:
    gone = item(quiet=0.5).model_copy(update={"away_since": NOON - timedelta(seconds=0.2)})

    row = worker_row(gone, NOON)

    assert (row.health, row.serves) == ("away", False)


@pytest.mark.parametrize(
    ("busy", "quiet", "health"),
    [(True, 0.5, "away"), (True, 4.5, "away"), (True, 5, "late"), (False, 30, "away"), (False, 31, "late")],
)
def test_5_a_worker_that_is_away_is_late_once_it_misses_the_limit_of_its_beat(
    busy: bool, quiet: float, health: str
) -> None:
    gone = item(quiet=quiet, busy=busy).model_copy(update={"away_since": NOON - timedelta(seconds=quiet)})

    row = worker_row(gone, NOON)

    assert (row.health, row.serves) == (health, False)
    assert worker_row(gone.model_copy(update={"state": WorkerState.LOST}), NOON).health == "lost"


@pytest.mark.parametrize(
    ("seconds", "usual", "pace"),
    [
        (50, {"n": 900, "p50": 8, "p90": 60, "p99": 70}, "usual"),
        (61, {"n": 900, "p50": 8, "p90": 60, "p99": 70}, "slow"),
        (211, {"n": 900, "p50": 8, "p90": 60, "p99": 70}, "stuck"),
        (211, {"n": 5, "p50": 8, "p90": 60, "p99": 70}, "slow"),
        (59, {"n": 900, "p50": 0.01, "p90": 0.02, "p99": 0.03}, "slow"),
        (1e6, {}, "usual"),
    ],
)
def test_a_run_is_compared_with_the_usual(seconds: float, usual: dict[str, float], pace: str) -> None:
    run = RunRow("t", "job", NOON - timedelta(seconds=seconds), Percentiles.model_validate(usual))

    assert run.pace(NOON) == pace
