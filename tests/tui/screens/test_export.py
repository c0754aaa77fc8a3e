"""Tasks are written to a file: those that are marked, or the whole list."""

import json
import os
import stat
from pathlib import Path

import pytest

from tests.tui.happenings import limits_are_full, much_happens, schedules_tick, targets_are_held
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged


async def write_to(stage: Stage, path: Path) -> None:
    """Name another file than the one that is offered."""
    await stage.press("ctrl+u")
    await stage.paste(str(path))
    await stage.press("enter")


async def test_the_marked_tasks_are_written_whole(server: MockServer, clock: FrozenClock, tmp_path: Path) -> None:
    path = tmp_path / "some.json"

    async with staged(server, clock) as stage:
        await stage.press("2", "space", "space", "x")
        assert "Write 2 tasks to" in stage.text()
        await write_to(stage, path)
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
        await stage.press("2", "x")
        await write_to(stage, path)
        await stage.until(lambda: "wrote 829 tasks" in stage.text())

    assert len(json.loads(path.read_text())["tasks"]) == 829
    assert json.loads(path.read_text())["is_capped"] is False


async def test_a_list_that_is_longer_than_is_given_at_once_says_so(
    server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    server.freezes = 50
    path = tmp_path / "all.json"

    async with staged(server, clock) as stage:
        await stage.press("2", "x")
        await write_to(stage, path)
        await stage.until(lambda: "wrote the first 50 tasks" in stage.text())

    assert json.loads(path.read_text())["is_capped"] is True


async def test_a_file_that_is_there_is_overwritten_only_after_a_yes(
    server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    path = tmp_path / ("x" * 100) / "some.json"
    path.parent.mkdir()
    path.write_text("precious")

    async with staged(server, clock) as stage:
        for answer, left in (("escape", "precious"), ("y", None)):
            await stage.press("2", "space", "x")
            await write_to(stage, path)
            await stage.until(lambda: "This file already exists" in stage.text())
            assert "/some.json" in stage.text(), "the end of a long path"
            await stage.press(answer)
            words = "wrote" if answer == "y" else "nothing was written"
            await stage.until(lambda words=words: words in stage.text())
            assert left is None or path.read_text() == left

    assert json.loads(path.read_text())["tasks"]


async def test_a_place_that_cannot_be_written_is_said(server: MockServer, clock: FrozenClock, tmp_path: Path) -> None:
    async with staged(server, clock, size=(200, 40)) as stage:
        await stage.press("2", "space", "x")
        await write_to(stage, tmp_path / "no" / "x.json")
        await stage.until(lambda: "No such file or directory" in stage.text())
        await stage.press("2", "x")
        await write_to(stage, tmp_path)
        await stage.until(lambda: "this is not a regular file and won't be overwritten" in stage.text())


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


LISTS = {
    "queues": ((), "full_name", ["@global:modifiers:Rotate", "@global:tasks:billing"]),
    "workers": (("3",), "name", ["web-1"]),
    "targets": (("4",), "name", ["cam-2", "printer"]),
    "schedules": (("5",), "name", ["nightly"]),
    "limits": (("8",), "name", ["openai", "gpu"]),
    "events": (("6",), "kind", ["task"]),
    "alerts": (("exclamation_mark",), "subject", ["billing"]),
}


@pytest.mark.parametrize("what", LISTS)
async def test_each_list_is_written_as_it_stands_there(
    what: str, server: MockServer, clock: FrozenClock, tmp_path: Path
) -> None:
    keys, name, some = LISTS[what]
    for prepare in (targets_are_held, schedules_tick, limits_are_full, much_happens):
        prepare(server)
    path = tmp_path / "list.json"

    async with staged(server, clock) as stage:
        await stage.press(*keys, "x")
        assert f" {what} to" in stage.text()
        assert f"treadle-{what}-" in stage.text()
        await write_to(stage, path)
        await stage.until(lambda: "wrote " in stage.text())

    written = json.loads(path.read_text())
    assert set(some) <= {row[name] for row in written[what]}
    assert written["server"] == "local"


async def test_an_empty_list_is_not_written(clock: FrozenClock) -> None:
    async with staged(MockServer(clock), clock) as stage:
        await stage.press("3", "x")

        assert "there are no workers to export" in stage.text()
