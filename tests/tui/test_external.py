"""Programs in this terminal, and its clipboard."""

import asyncio
import os
import sys
from base64 import b64decode
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.children import children_named
from treadle_tui import external
from treadle_tui.core.setup.app_state import Notify


def test_the_environment_says_which_program_and_a_bad_one_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert external.program(external.EDITORS, {"VISUAL": "code --wait", "EDITOR": "vi"}) == ["code", "--wait"]
    assert external.program(external.EDITORS, {"EDITOR": "vi"}) == ["vi"]
    with pytest.raises(external.ExternalError, match="EDITOR is not a valid command"):
        external.program(external.EDITORS, {"EDITOR": "vi '"})
    monkeypatch.setenv("PATH", "")
    with pytest.raises(external.ExternalError, match="set VISUAL to a program"):
        external.program(external.EDITORS, {})


def test_the_clipboard_is_reached_through_tmux_too() -> None:
    plain, wrapped = external.clipboard_sequences("ö" * 3, {"TMUX": "/tmp/tmux,1,0", "TERM": "tmux-256color"})

    assert b64decode(plain.removeprefix("\x1b]52;c;").removesuffix("\a")).decode() == "ööö"
    assert wrapped == "\x1bPtmux;" + plain.replace("\x1b", "\x1b\x1b") + "\x1b\\"
    assert external.clipboard_sequences("x", {"TERM": "xterm-256color"}) == ["\x1b]52;c;eA==\a"]


class _Copying:
    """An app that copies as Textual does: it writes the plain sequence."""

    def __init__(self, *, is_web: bool) -> None:
        self.is_web = is_web
        self.written: list[str] = []
        self._driver = SimpleNamespace(write=self.written.append)

    def copy_to_clipboard(self, text: str) -> None:
        self.written += external.clipboard_sequences(text, {})


@pytest.mark.parametrize(("is_web", "around"), [(False, ["\x1bP\x1b]52;c;eA==\a\x1b\\"]), (True, [])])
def test_the_terminal_around_screen_gets_what_is_copied_and_not_from_a_browser(
    monkeypatch: pytest.MonkeyPatch, is_web: bool, around: list[str]
) -> None:
    """Within screen, only what screen keeps to itself was written."""
    monkeypatch.delenv("TMUX", raising=False)
    monkeypatch.setenv("TERM", "screen-256color")
    app = _Copying(is_web=is_web)

    external.copy(app, "x")  # type: ignore[arg-type]

    assert app.written == ["\x1b]52;c;eA==\a", *around]


@pytest.mark.parametrize(
    ("how", "written"),
    [
        ("off", []),
        ("bell", ["\a"]),
        ("osc9", ["\x1b]9;a; b\x1b\\"]),
        ("osc777", ["\x1b]777;notify;treadle;a, b\x1b\\"]),
    ],
)
def test_a_terminal_is_notified_as_it_understands(how: Notify, written: list[str]) -> None:
    assert external.notification_sequences(how, "a; b", {"TERM": "xterm"}) == written


def test_a_notification_goes_through_tmux_and_carries_nothing_that_ends_it_early() -> None:
    [wrapped] = external.notification_sequences("osc9", "a\x1b\\b\ac", {"TMUX": "/tmp/tmux,1,0"})

    assert wrapped.startswith("\x1bPtmux;\x1b\x1b]9;")
    assert wrapped.count("\x1b") == 6
    assert "\a" not in wrapped


class _Screen:
    batch_update = suspend = nullcontext


async def test_a_program_that_ends_just_as_a_dashboard_closes_is_not_killed_any_more() -> None:
    """It was a traceback on the terminal."""

    class Ending:
        returncode: int | None = None

        def terminate(self) -> None:
            pass

        async def wait(self) -> None:
            self.returncode = 0
            raise asyncio.CancelledError

        def kill(self) -> None:
            raise ProcessLookupError

    await external._end(ending := Ending())  # type: ignore[arg-type]

    assert ending.returncode == 0


@pytest.mark.parametrize("times", [2, 3, 5])
async def test_a_program_that_will_not_end_does_not_outlive_a_dashboard_in_a_hurry(times: int, tmp_path: Path) -> None:
    stubborn = (
        "import pathlib, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        " pathlib.Path(sys.argv[1]).write_text('begun'); signal.pause()"
    )
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    command = [sys.executable, "-c", stubborn, str(begun)]
    showing = asyncio.create_task(external._run(_Screen(), command))  # type: ignore[arg-type]
    assert await asyncio.to_thread(begun.read_text) == "begun"
    (number,) = children_named(str(begun))
    program = psutil.Process(number)
    for _ in range(times):
        showing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await showing
    assert not program.is_running()
