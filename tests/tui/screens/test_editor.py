"""Tasks go to the editor, the pager, a file and the clipboard, and what was written is never lost."""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import uuid
from tests.tui.stage import slow, staged
from treadle_tui.app import Dashboard

EDITOR = """
import json, pathlib, shutil, stat, sys
path, turns = pathlib.Path(sys.argv[-1]), pathlib.Path(sys.argv[1])
turn = len(list(turns.glob("seen-*")))
shutil.copy(path, turns / f"seen-{turn}")
(turns / f"mode-{turn}").write_text(oct(stat.S_IMODE(path.stat().st_mode)))
new = turns / f"write-{turn}"
if new.exists():
    head = "".join(line for line in path.read_text().splitlines(True) if line.startswith("//"))
    written = new.read_text()
    mark = chr(0xFEFF) if written.startswith(chr(0xFEFF)) else ""
    path.write_text(mark + head + written.removeprefix(mark))
sys.exit(int((turns / "code").read_text()) if (turns / "code").exists() else 0)
"""


class Turns:
    """An editor that writes what the test wants, turn by turn, and keeps what it was given."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self._writes = 0

    def write(self, text: str) -> None:
        (self.place / f"write-{self._writes}").write_text(text)
        self._writes += 1

    def fail(self, code: int) -> None:
        (self.place / "code").write_text(str(code))

    def seen(self, turn: int = 0) -> str:
        return (self.place / f"seen-{turn}").read_text()

    def count(self) -> int:
        return len(list(self.place.glob("seen-*")))


@pytest.fixture
def turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Turns:
    script = tmp_path / "editor.py"
    script.write_text(EDITOR)
    place = tmp_path / "turns"
    place.mkdir()
    for name in ("VISUAL", "PAGER"):
        monkeypatch.setenv(name, f"{sys.executable} '{script}' '{place}'")
    # There is no terminal to lend in a test; the program is as real as any.
    monkeypatch.setattr(Dashboard, "suspend", nullcontext)
    return Turns(place)


def pending(server: MockServer) -> str:
    return next(key for key, row in server.tasks.items() if row["status"] == "pending")


def alone(server: MockServer, key: str) -> dict[str, Any]:
    """Let the list hold one task."""
    row = server.tasks[key]
    server.tasks = {key: row}
    return row


# Editing.


async def test_what_a_submit_says_is_edited_and_taken_away_and_given_back(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    row |= {"timeout": 30.0, "retry_base": 5.0, "scopes": ["queue:read:lab"]}
    turns.write(json.dumps({"timeout": None, "retry_base": 1, "max_retries": None}))
    turns.write(json.dumps({"timeout": None, "retry_base": 1, "scopes": []}))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "max_retries: must not be null" in stage.text())
        await stage.press("e")
        await stage.until(lambda: "changed timeout, retry_base, scopes" in stage.text())
        edit = stage.asked("edit")[-1]
        await stage.press("u")
        await stage.until(lambda: "undone: reverted the edit" in stage.text())

    assert (edit["timeout"], edit["retry_base"], edit["scopes"]) == (None, 1, [])
    assert (row["timeout"], row["retry_base"], row["scopes"]) == (30.0, 5.0, ["queue:read:lab"])


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "byte order mark"])
async def test_6_an_edit_changes_a_waiting_task_and_is_undone(
    mark: str, server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    before = dict(row)
    turns.write(mark + json.dumps({"payload": {"angle": 7}, "priority": 5}))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "changed payload, priority" in stage.text())

        edit = stage.asked("edit")[-1]
        assert edit == {"op": "edit", "id": row["id"], "if_version": 1, "payload": {"angle": 7}, "priority": 5}
        await stage.press("u")
        await stage.until(lambda: "undone: reverted the edit" in stage.text())
        assert stage.asked("edit")[-1]["if_version"] == 2
    assert (row["payload"], row["priority"]) == (before["payload"], 0)


async def test_what_cannot_be_taken_is_said_and_can_be_edited_again_with_nothing_lost(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    alone(server, pending(server))
    turns.write('{"payload": {"angle": 7},\n "priority": }')
    turns.write('{"payload": {"angle": 7}, "wieght": 2}')
    turns.write('{"payload": {"angle": 7}, "weight": 2}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "line 29, column 14: expecting value" in stage.text())
        await stage.press("e")
        await stage.until(lambda: "unknown field 'wieght'" in stage.text())
        assert '"priority": }' in turns.seen(1)
        await stage.press("escape")
        assert "to get your text back" in stage.text()
        assert stage.asked("edit") == []

        await stage.press("e")
        await stage.until(lambda: "changed payload, weight" in stage.text())
        assert '"wieght": 2' in turns.seen(2)


async def test_what_the_server_refuses_can_be_edited_again(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    server.refuses["edit"] = "invalid-payload"
    turns.write('{"payload": {"angle": "x"}}')
    turns.write('{"payload": {"angle": 8}}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "The server did not accept it" in stage.text())
        del server.refuses["edit"]
        await stage.press("e")
        await stage.until(lambda: "changed payload" in stage.text())

    assert row["payload"] == {"angle": 8}


async def test_7_of_an_edit_whose_answer_was_lost_it_is_not_said_that_the_server_did_not_take_it(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    alone(server, pending(server))
    server.loses.add("edit")
    turns.write('{"payload": {"angle": 8}}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "It is unknown whether the server accepted it" in stage.text())
        assert "save was sent, but the connection broke" in stage.text()
        await stage.press("escape")
        assert "possibly saved; press e on" in stage.text()

        server.open()
        await stage.press("e")
        await stage.until(lambda: "nothing was changed" in stage.text())


async def test_6_an_edit_that_came_too_late_goes_on_with_what_others_have_changed_since(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    server.refuses["edit"] = "task-conflict"
    turns.write('{"payload": {"angle": 8}, "priority": 0, "weight": 1}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "The server did not accept it" in stage.text())
        row |= {"priority": 9, "version": 2}
        del server.refuses["edit"]
        await stage.press("e")
        await stage.until(lambda: "changed payload of" in stage.text())

    assert '"priority": 9' in turns.seen(1)
    assert stage.asked("edit")[-1] == {"op": "edit", "id": row["id"], "if_version": 2, "payload": {"angle": 8}}


async def test_of_a_task_that_is_over_a_changed_copy_is_submitted_and_undone(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    failed = alone(server, next(key for key, row in server.tasks.items() if row["status"] == "failed"))
    turns.write('{"payload": {"angle": 3}}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "submitted" in stage.text())

        assert "It is failed and won't change" in turns.seen()
        (copy,) = stage.asked("submit")[-1]["tasks"]
        assert copy == {
            "id": copy["id"],
            "job": failed["job_name"],
            "payload": {"angle": 3},
            "priority": 0,
            "weight": 1,
            "max_retries": 3,
            "max_requeues": 5,
        }
        assert failed["status"] == "failed"
        await stage.press("u")
        await stage.until(lambda: "undone: cancelled 1 task" in stage.text())


async def test_7_a_copy_that_is_submitted_again_as_it_was_written_is_the_same_task(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    alone(server, next(key for key, row in server.tasks.items() if row["status"] == "failed"))
    turns.write('{"payload": {"angle": 3}}')

    async with staged(server, clock) as stage:
        server.refuses["submit"] = "store-unavailable"
        await stage.press("2", "e")
        await stage.until(lambda: "The server did not accept it" in stage.text())
        server.refuses.clear()
        await stage.press("e")
        await stage.until(lambda: "submitted" in stage.text())

    first, again = (request["tasks"][0]["id"] for request in stage.asked("submit"))
    assert again == first


async def test_nothing_changed_means_nothing_done(server: MockServer, clock: FrozenClock, turns: Turns) -> None:
    alone(server, pending(server))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "nothing was changed" in stage.text())

    assert stage.asked("edit") == []
    assert (turns.place / "mode-0").read_text() == "0o600"


async def test_what_runs_is_not_edited_and_several_tasks_neither(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "can't edit a running task" in stage.text())
        await stage.press("space", "space", "e")
        assert "2 tasks are marked: this works on a single task" in stage.text()

    assert turns.count() == 0


async def test_an_editor_that_fails_changes_nothing_and_says_so(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    alone(server, pending(server))
    turns.write('{"payload": {}}')
    turns.fail(3)

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "exited with code 3: nothing was changed" in stage.text())

    assert stage.asked("edit") == []


@pytest.mark.parametrize("editor", ["/nowhere/editor -w", "/", "''"])
async def test_the_dashboard_goes_on_drawing_where_there_is_no_such_editor(
    editor: str, server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(server, pending(server))
    monkeypatch.setenv("VISUAL", editor)
    monkeypatch.setattr(HeadlessDriver, "can_suspend", True)
    modes: list[str] = []
    for mode in ("start_application_mode", "stop_application_mode"):
        monkeypatch.setattr(HeadlessDriver, mode, lambda _, mode=mode: modes.append(mode))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "can't start" in stage.text())

        assert modes[-2:] == ["stop_application_mode", "start_application_mode"]


async def test_without_a_terminal_to_lend_it_says_so(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "true")

    async with staged(server, clock) as stage:
        await stage.press("2", "v")
        await stage.until(lambda: "this terminal can't run another program" in stage.text())


# Reading.


@pytest.mark.parametrize("key", ["o", "v"])
async def test_a_task_is_read_in_the_editor_and_in_the_pager(
    key: str, server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    row.update(error="first\x1b[2J\nsecond", result={"found": [1, 2]})

    async with staged(server, clock) as stage:
        await stage.press("2", key)
        await stage.until(lambda: turns.count() == 1)

    read = turns.seen()
    assert row["id"] in read
    assert '"angle"' in read
    assert '"found"' in read
    assert "first\\x1b[2J\nsecond" in read
    assert (turns.place / "mode-0").read_text() == "0o400"


@pytest.mark.parametrize("key", ["e", "o", "v"])
async def test_6_what_is_typed_behind_the_key_that_opens_a_program_is_nobodys(
    key: str, server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    """The program reads its keys by itself, and what was meant for it must not act on the list."""
    alone(server, pending(server))

    async with staged(server, clock) as stage:
        await stage.press("2")
        async with slow(stage):
            await stage.burst(key, "p")
        await stage.until(lambda: turns.count() == 1)
        await stage.settle()

        assert stage.asked("actions") == []


# The clipboard.


async def test_copying_names_the_task(server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)

    async with staged(server, clock) as stage:
        await stage.press("2", "y")

        assert stage.app.clipboard == uuid(1)
        assert f"copied {uuid(1)}" in stage.text()


@pytest.mark.parametrize("is_web", [False, True])
async def test_what_is_copied_in_a_browser_is_not_put_on_the_clipboard_of_who_serves_it(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch, is_web: bool
) -> None:
    copied: list[str] = []

    async def copy_to_tmux(text: str) -> None:
        copied.append(text)

    monkeypatch.setattr("treadle_tui.external.copy_to_tmux", copy_to_tmux)
    async with staged(server, clock) as stage:
        stage.app.app_state.web = is_web
        await stage.press("2", "y")

        assert stage.app.clipboard == uuid(1)
        assert copied == ([] if is_web else [uuid(1)])
