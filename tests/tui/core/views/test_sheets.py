"""What the sheets of an encrypted task show, to who has its keys and to who has none."""

import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import task
from treadle import Context
from treadle.encryption import FernetCodec, Sealer, new_key
from treadle_tui.core.draw.glyphs import UNICODE
from treadle_tui.core.state.detail import TaskDetail, shown_detail
from treadle_tui.core.views import empty_states, sheets
from treadle_tui.core.views.sheets import SHEETS, Sheets

SEALER = Sealer(FernetCodec(new_key()))
OTHER = Sealer(FernetCodec(new_key()))


def written(sealer: Sealer) -> dict[str, str]:
    """Write the sheets of a task that has said `secret` wherever it can."""
    error = SEALER.text("KeyError: 'secret'", error_class="KeyError")
    trace = SEALER.text("Traceback: secret")
    run = {"task_id": "x", "run_id": 0, "status": "failed", "error": error, "traceback": trace, "claimed_at": NOON}
    event = {"at": NOON, "kind": "ended", "run_id": 0, "status": "failed", "error": error}
    line = {"run_id": 0, "at": NOON, "level": "info", "message": SEALER.text("said secret")}
    values = {name: SEALER.value({name: "secret"}) for name in ("payload", "result", "checkpoint")}
    one = {**task(1), **values, "encrypted": True, "error": error}
    row = {"id": "x", "task": one, "runs": [run], "logs": [line], "events": [event]}
    shown = Sheets(UNICODE).write(TaskDetail.model_validate(shown_detail(sealer, row)))
    documents = {name: [sheet[index] for index in range(len(sheet))] for name, sheet in shown.items()}
    return {name: "\n".join("".join(span.text for span in line) for line in lines) for name, lines in documents.items()}


def test_a_run_whose_error_was_not_sent_says_where_it_is() -> None:
    run = {"task_id": "x", "run_id": 0, "status": "failed", "claimed_at": NOON, "left_out": ["error", "traceback"]}
    detail = TaskDetail.model_validate({"id": "x", "task": task(1), "runs": [run]})

    sheet = Sheets(UNICODE).write(detail)["error"]

    shown = ["".join(span.text for span in sheet[index]) for index in range(len(sheet))]
    assert "run 0" in shown[0]
    assert "`treadle task ID` shows it" in shown[1]


def test_with_its_keys_a_task_is_shown_in_plain() -> None:
    shown = written(SEALER)

    assert set(shown) == set(SHEETS)
    assert [name for name in SHEETS if "secret" not in shown[name]] == []


def test_without_its_keys_each_sheet_says_that_it_is_encrypted_and_how_an_error_is_called() -> None:
    for sealer in (Sealer(None), OTHER):
        shown = written(sealer)

        assert [name for name in SHEETS if "(encrypted)" not in shown[name]] == []
        assert [name for name in SHEETS if "treadle:encrypted" in shown[name]] == []
        assert "KeyError: (encrypted)" in shown["events"]
        assert "TREADLE_ENCRYPTION_KEYS" in shown["payload"]


@pytest.mark.parametrize("module", [sheets, empty_states], ids=lambda module: module.__name__)
def test_what_an_empty_sheet_or_list_advises_to_call_is_there(module: ModuleType) -> None:
    advised = re.findall(r"ctx\.(\w+)\(", Path(inspect.getfile(module)).read_text())

    assert advised != []
    assert [name for name in advised if not inspect.isfunction(getattr(Context, name, None))] == []


def test_the_events_say_how_many_steps_were_not_sent() -> None:
    event = {"at": NOON, "kind": "step", "run_id": 0, "status": "call", "step": "plan"}
    detail = TaskDetail.model_validate({"id": "x", "task": task(1, steps=302), "events": [event]})

    sheet = Sheets(UNICODE).write(detail)["events"]

    assert "".join(span.text for span in sheet[0]) == " 301 earlier steps not shown"


def test_the_errors_and_the_events_say_how_many_runs_were_not_sent() -> None:
    run = {"task_id": "x", "run_id": 9_500, "status": "failed", "error": "no", "claimed_at": NOON, "ended_at": NOON}
    event = {"at": NOON, "kind": "claimed", "run_id": 9_500}
    detail = TaskDetail.model_validate({"id": "x", "task": task(1), "runs": [run], "events": [event]})

    shown = Sheets(UNICODE).write(detail)

    assert "".join(span.text for span in shown["events"][0]) == " 9,500 earlier runs not shown"
    assert "".join(span.text for span in shown["error"][len(shown["error"]) - 1]) == " 9,500 earlier runs not shown"
