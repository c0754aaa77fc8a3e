"""The logs of several tasks as one: each line in one order, opened where a key fits."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tui.mock import NOON
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle_tui.core.state.logs import LogRow, log_row, newest_first

SEALER = Sealer(FernetCodec(new_key()))


def pushed(task: str, number: int, *, seconds: float = 0.0, message: str = "frame 3") -> dict[str, Any]:
    return {
        "id": f"{task} 0 {number}",
        "line": number,
        "task_id": task,
        "job_name": "lab:tasks:Add",
        "run_id": 0,
        "at": (NOON + timedelta(seconds=seconds)).isoformat(),
        "level": "info",
        "message": message,
    }


def row(task: str, number: int, seconds: float = 0.0) -> LogRow:
    return log_row(Sealer(None), pushed(task, number, seconds=seconds))


def test_lines_of_several_tasks_stand_in_the_order_of_their_times_the_newest_first() -> None:
    rows = [row("a", 1, 1), row("a", 4, 3), row("b", 2, 2), row("b", 3, 3), row("b", 5, 4)]

    assert [(one.task_id, one.number) for one in newest_first(rows)] == [
        ("b", 5), ("a", 4), ("b", 3), ("b", 2), ("a", 1),
    ]  # fmt: skip


@given(st.permutations([row(task, number, number // 2) for number, task in enumerate("abcdabcd")]))
def test_their_order_is_the_same_however_they_came(rows: list[LogRow]) -> None:
    assert [one.number for one in newest_first(rows)] == [7, 6, 5, 4, 3, 2, 1, 0]


@pytest.mark.parametrize(
    ("sealer", "said"),
    [(SEALER, "frame 3"), (Sealer(FernetCodec(new_key())), "encrypted"), (Sealer(None), "encrypted")],
)
def test_an_encrypted_line_is_opened_where_a_key_fits_and_else_said_to_be_so(sealer: Sealer, said: str) -> None:
    sealed = SEALER.text("frame 3")

    message = log_row(sealer, pushed("a", 1, message=sealed)).message

    assert said in message
    assert sealed not in message


def test_a_text_is_looked_for_in_all_that_a_line_tells() -> None:
    line = row("0199-abc", 1)

    assert all(line.has(text) for text in ("FRAME 3", "info", "tasks:add", "0199-ABC"))
    assert not line.has("warning")
