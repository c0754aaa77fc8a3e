"""Tasks go to the editor, the pager, a file and the clipboard, and what was written is never lost."""

import json
import os
import stat
import sys
from base64 import b64decode
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.wire.tasks import EDITABLE, TaskItem
from treadle_tui import files, outside
from treadle_tui.app import Dashboard
from treadle_tui.core.papers import FIELDS, Wrong, edit_text, read_edit, reading_text, values

from .mock import NOON, FrozenClock, MockServer
from .scene import task, uuid
from .stage import staged

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)

EDITOR = """
import json, pathlib, shutil, stat, sys
path, turns = pathlib.Path(sys.argv[-1]), pathlib.Path(sys.argv[1])
turn = len(list(turns.glob("seen-*")))
shutil.copy(path, turns / f"seen-{turn}")
(turns / f"mode-{turn}").write_text(oct(stat.S_IMODE(path.stat().st_mode)))
new = turns / f"write-{turn}"
if new.exists():
    head = "".join(line for line in path.read_text().splitlines(True) if line.startswith("//"))
    path.write_text(head + new.read_text())
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


def test_all_that_the_server_lets_an_edit_change_stands_in_the_editor() -> None:
    assert set(FIELDS) == EDITABLE - {"delay"}


async def test_what_a_submit_says_is_edited_and_taken_away_and_given_back(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    row |= {"timeout": 30.0, "retry_base": 5.0, "scopes": ["queue:read:lab"]}
    turns.write(json.dumps({"timeout": None, "retry_base": 1, "max_retries": None}))
    turns.write(json.dumps({"timeout": None, "retry_base": 1, "scopes": []}))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "max_retries: may not be null" in stage.text())
        await stage.press("e")
        await stage.until(lambda: "changed timeout, retry_base, scopes" in stage.text())
        edit = stage.asked("edit")[-1]
        await stage.press("u")
        await stage.until(lambda: "undone: edited back" in stage.text())

    assert (edit["timeout"], edit["retry_base"], edit["scopes"]) == (None, 1, [])
    assert (row["timeout"], row["retry_base"], row["scopes"]) == (30.0, 5.0, ["queue:read:lab"])


async def test_6_an_edit_changes_a_waiting_task_and_is_undone(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    row = alone(server, pending(server))
    before = dict(row)
    turns.write(json.dumps({"payload": {"angle": 7}, "priority": 5}))

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "changed payload, priority" in stage.text())

        edit = stage.asked("edit")[-1]
        assert edit == {"op": "edit", "id": row["id"], "if_version": 1, "payload": {"angle": 7}, "priority": 5}
        await stage.press("u")
        await stage.until(lambda: "undone: edited back" in stage.text())
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
        await stage.until(lambda: "line 27, column 14: expecting value" in stage.text())
        await stage.press("e")
        await stage.until(lambda: "there is no 'wieght'" in stage.text())
        assert '"priority": }' in turns.seen(1)
        await stage.press("escape")
        assert "brings back what you wrote" in stage.text()
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
        await stage.until(lambda: "The server did not take it" in stage.text())
        del server.refuses["edit"]
        await stage.press("e")
        await stage.until(lambda: "changed payload" in stage.text())

    assert row["payload"] == {"angle": 8}


async def test_of_a_task_that_is_over_a_changed_copy_is_submitted_and_undone(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    failed = alone(server, next(key for key, row in server.tasks.items() if row["status"] == "failed"))
    turns.write('{"payload": {"angle": 3}}')

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "submitted" in stage.text())

        assert "It is failed and stays so" in turns.seen()
        (copy,) = stage.asked("submit")[-1]["tasks"]
        assert copy == {
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
        await stage.until(lambda: "can't edit what is running" in stage.text())
        await stage.press("space", "space", "e")
        assert "2 tasks are marked: this takes one" in stage.text()

    assert turns.count() == 0


async def test_an_editor_that_fails_changes_nothing_and_says_so(
    server: MockServer, clock: FrozenClock, turns: Turns
) -> None:
    alone(server, pending(server))
    turns.write('{"payload": {}}')
    turns.fail(3)

    async with staged(server, clock) as stage:
        await stage.press("2", "e")
        await stage.until(lambda: "ended with 3: nothing was taken over" in stage.text())

    assert stage.asked("edit") == []


async def test_without_a_terminal_to_lend_it_says_so(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGER", "true")

    async with staged(server, clock) as stage:
        await stage.press("2", "v")
        await stage.until(lambda: "this terminal can't be lent to another program" in stage.text())


@given(JSON, st.integers(-100, 100), st.dictionaries(st.text(min_size=1, max_size=5), st.text(max_size=5), max_size=3))
def test_10_every_task_can_be_read_back_from_its_text_and_nothing_in_it_is_obeyed(
    payload: Any, priority: int, tags: dict[str, str]
) -> None:
    one = TaskItem.model_validate(task(1) | {"payload": {"a": payload}, "priority": priority, "tags": tags})

    text = edit_text(one)

    assert all(char == "\n" or char.isprintable() for char in text)
    assert read_edit(text, one) == {}
    assert all(char == "\n" or char.isprintable() for char in reading_text(one, NOON))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "the whole must be one object"),
        ('{"priority": 1.5}', "priority: input should be a valid integer"),
        ('{"payload": null}', "payload: may not be null"),
        ('{"scheduled_at": null}', "scheduled_at: may not be null"),
        ('{"scheduled_at": "noon"}', "scheduled_at: write the time as in"),
        ('{"weight": 0}', "weight: input should be greater than or equal to 1"),
        ('{"payload": {"x": NaN}}', "NaN is no JSON"),
        ("[" * 100_000, "recursion"),
    ],
)
def test_each_mistake_is_named(text: str, problem: str) -> None:
    found = read_edit(text, TaskItem.model_validate(task(1)))

    assert isinstance(found, Wrong)
    assert problem in found.problems[0]


def test_an_empty_file_changes_nothing() -> None:
    one = TaskItem.model_validate(task(1))

    assert read_edit("// only words\n\n", one) == {}
    assert values(one)["tags"] == {}


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


def test_the_environment_says_which_program_and_a_bad_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outside.program(outside.EDITORS, {"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert outside.program(outside.EDITORS, {"EDITOR": "vi"}) == ["vi"]
    with pytest.raises(outside.OutsideError, match="EDITOR can't be read as a command"):
        outside.program(outside.EDITORS, {"EDITOR": "vi '"})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(outside.OutsideError, match="set VISUAL to a program"):
        outside.program(outside.EDITORS, {})


# Exporting.


async def test_the_marked_tasks_are_written_whole(server: MockServer, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "some.json"

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "x")
        assert "Write 2 tasks to" in stage.text()
        await stage.press("ctrl+u", *str(path), "enter")
        await stage.until(lambda: "wrote 2 tasks" in stage.text())

    written = json.loads(path.read_text())
    assert [row["id"] for row in written["tasks"]] == list(server.tasks)[:2]
    assert written["tasks"][0]["payload"] == {"angle": 15}
    assert [name.name for name in os.scandir(tmp_path)] == [path.name]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_without_marks_the_whole_list_is_written_loaded_or_not(
    server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    path = tmp_path / "all.json"

    async with staged(server, clock) as stage:
        await stage.press("2", "x", "ctrl+u", *str(path), "enter")
        await stage.until(lambda: "wrote 829 tasks" in stage.text())

    assert len(json.loads(path.read_text())["tasks"]) == 829
    assert json.loads(path.read_text())["is_capped"] is False


async def test_a_list_that_is_longer_than_is_given_at_once_says_so(
    server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    server.freezes = 50
    path = tmp_path / "all.json"

    async with staged(server, clock) as stage:
        await stage.press("2", "x", "ctrl+u", *str(path), "enter")
        await stage.until(lambda: "wrote the first 50 tasks" in stage.text())

    assert json.loads(path.read_text())["is_capped"] is True


async def test_a_file_that_is_there_is_overwritten_only_after_a_yes(
    server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    path = tmp_path / "some.json"
    path.write_text("precious")

    async with staged(server, clock) as stage:
        for answer, left in (("escape", "precious"), ("y", None)):
            await stage.press("2", "space", "x", "ctrl+u", *str(path), "enter")
            await stage.until(lambda: "There is such a file" in stage.text())
            await stage.press(answer)
            words = "wrote" if answer == "y" else "nothing was written"
            await stage.until(lambda words=words: words in stage.text())
            assert left is None or path.read_text() == left

    assert json.loads(path.read_text())["tasks"]


async def test_a_place_that_cannot_be_written_is_said(server: MockServer, clock: FrozenClock, tmp_path: Path) -> None:
    async with staged(server, clock, size=(200, 40)) as stage:
        await stage.press("2", "space", "x", "ctrl+u", *str(tmp_path / "no" / "x.json"), "enter")
        await stage.until(lambda: "No such file or directory" in stage.text())


async def test_a_file_that_comes_while_one_is_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("theirs")

    with pytest.raises(FileExistsError):
        await files.write_json(path, {"tasks": []}, overwrite=False)

    assert path.read_text() == "theirs"
    assert [name.name for name in os.scandir(tmp_path)] == [path.name]


async def test_tab_completes_a_path(
    server: MockServer, clock: FrozenClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("reports", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "reports" / "may.json").touch()

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "x", "ctrl+u", "r", "tab")
        await stage.until(lambda: "reports/  results/" in stage.text())
        await stage.press(*"po", "tab")
        await stage.until(lambda: "│ reports/ " in stage.text())
        await stage.press("tab")
        await stage.until(lambda: "may.json" in stage.text())


def test_the_home_is_completed_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / ".secret").touch()

    assert files.completions("~") == ["~/"]
    assert files.completions("~/") == ["~/notes/"]
    assert files.completions("~/.s") == ["~/.secret"]
    assert files.completions("~/nowhere/x") == []
    assert files.place_of(" ~/notes/x.json ") == tmp_path / "notes" / "x.json"


# The clipboard.


def test_the_clipboard_is_reached_through_tmux_too() -> None:
    plain, wrapped = outside.clipboard_sequences("ö" * 3, {"TMUX": "/tmp/tmux,1,0", "TERM": "tmux-256color"})

    assert b64decode(plain.removeprefix("\x1b]52;c;").removesuffix("\a")).decode() == "ööö"
    assert wrapped == "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    assert outside.clipboard_sequences("x", {"TERM": "xterm-256color"}) == ["\x1b]52;c;eA==\a"]
    assert outside.clipboard_sequences("x", {"TERM": "screen"}) == ["\x1bP\x1b]52;c;eA==\a\x1b\\"]


async def test_copying_names_the_task(server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)

    async with staged(server, clock) as stage:
        await stage.press("2", "y")

        assert stage.app.clipboard == uuid(1)
        assert f"copied {uuid(1)}" in stage.text()


# Marking all.


async def test_6_all_that_match_are_marked_and_unmarked(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "asterisk")
        assert "829 marked" in stage.text()
        assert stage.asked("freeze")[-1]["order"] == "position"
        await stage.press("asterisk")
        assert "marked" not in stage.text()


async def test_6_more_than_can_be_named_at_once_are_marked_in_part_and_that_is_said(
    server: MockServer, clock: FrozenClock
) -> None:
    server.freezes = 300

    async with staged(server, clock) as stage:
        await stage.press("2", "asterisk")
        assert "300 marked" in stage.text()
        assert "marked the first 300: no more are marked at once" in stage.text()


async def test_6_each_task_of_an_action_is_looked_through(server: MockServer, clock: FrozenClock) -> None:
    gone = list(server.tasks)[1]

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "c")
        server.tasks[gone]["version"] += 1
        del server.tasks[gone]
        await stage.press("y")
        assert "cancelled 1 task, not 1: it was changed since" in stage.text()
        await stage.press("R")

        assert "What was done  1 task, not 1" in stage.text()
        assert "it was changed since" in next(line for line in stage.lines() if gone in line)
        assert "cancelled; it was running" in next(line for line in stage.lines() if uuid(1) in line)
        await stage.press("escape")
        assert "What was done" not in stage.text()
