"""The kept stream of transitions: each once, in order, and bounded."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from tests.tui.scene import task, uuid
from treadle.filters import parse
from treadle_tui.core.state.events import KEPT, EventLog


def pushed(*seqs: int, stream: str = "s") -> dict[str, Any]:
    events = [
        {"seq": seq, "type": "task.updated", "at": NOON.isoformat(), "task": task(seq), "was": None} for seq in seqs
    ]
    return {"push": "events", "stream": stream, "seq": max(seqs), "events": events}


@given(st.lists(st.lists(st.integers(1, 60), min_size=1, max_size=5).map(sorted), max_size=20))
def test_7_an_event_that_comes_twice_is_shown_once_and_none_before_an_older_one(pushes: list[list[int]]) -> None:
    log = EventLog()
    log.began("s", 0)

    for seqs in pushes:
        log.take(pushed(*dict.fromkeys(seqs)), NOON)

    shown = [row.subject for row in log.rows]
    assert len(set(shown)) == len(shown)
    assert shown == sorted(shown, key=[uuid(seq) for seq in range(61)].index)


def test_the_log_is_bounded() -> None:
    log = EventLog()
    log.began("s", 0)

    for seq in range(1, 2 * KEPT, 50):
        log.take(pushed(*range(seq, seq + 50)), NOON)

    assert len(log.rows) == KEPT
    assert log.rows[-1].subject == uuid(2 * KEPT)


def test_an_error_is_why_a_run_ended_and_not_why_its_task_runs_again() -> None:
    steps = [("claimed", "running"), ("running", "scheduled"), ("scheduled", "pending"), ("pending", "claimed"),
             ("running", "failed"), ("pending", "cancelled")]  # fmt: skip
    log = EventLog()
    log.began("s", 0)

    for seq, (was, status) in enumerate(steps, start=1):
        [event] = pushed(seq)["events"]
        event |= {"was": was, "task": {**event["task"], "status": status, "error": "KeyError: 'x'"}}
        log.take({**pushed(seq), "events": [event]}, NOON)

    assert [row.state for row in log.rows if row.note] == ["scheduled", "failed", "cancelled"]


def test_a_filter_finds_a_transition_by_the_reason_and_by_how_often_its_task_was_claimed() -> None:
    log = EventLog()
    log.began("s", 0)
    [event] = pushed(1)["events"]
    event["task"] |= {"status": "failed", "error": "the run took longer", "reason": "timeout", "run_id": 1}

    log.take({**pushed(1), "events": [event]}, NOON)

    [row] = log.rows
    assert [text for text in ("error:timeout", "tries:2", "tries:0", "-error:timeout") if row.means(parse(text))] == [
        "error:timeout",
        "tries:2",
    ]


def test_a_worker_s_id_that_is_no_text_is_taken_for_one() -> None:
    log = EventLog()
    log.began("s", 0)
    push = pushed(1)
    push["events"][0]["task"]["worker_id"] = 5

    log.take(push, NOON)

    assert [row.worker_id for row in log.rows] == ["5"]
