"""The terminal is usable after whatever ended the dashboard, in a real pseudo-terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.children import has_ended, kill_all
from tests.waiting import SECONDS
from treadle_tui.guard import RESTORE

SCREEN = b"\x1b[?1049h"

CRASHING = """
import sys
from treadle_tui.guard import guarded
from treadle_tui.launch import LaunchOptions, dashboard
def show():
    app = dashboard(LaunchOptions(url="http://127.0.0.1:9"))
    app.flush = lambda: 1 / 0
    app.run()
    return app.return_code or 0
sys.exit(guarded(show))
"""

MEASURING = """
import os, sys
from treadle_tui.guard import guarded
from treadle_tui.launch import LaunchOptions, dashboard
def show():
    app = dashboard(LaunchOptions(url="http://127.0.0.1:9"))
    app.flush = lambda: os.write(1, f"<{app.size.width}x{app.size.height}>".encode())
    app.run()
    return app.return_code or 0
sys.exit(guarded(show))
"""


class Terminal:
    """A terminal with the dashboard in it, as a shell would start it."""

    def __init__(self, home: Path, *command: str, has_jobs: bool = False) -> None:
        """`has_jobs` says whether it is a shell's job, or all that there is in its session."""
        self.parent, self._child = pty.openpty()
        termios.tcsetwinsize(self.parent, (30, 100))
        self.before = termios.tcgetattr(self._child)
        environment = {**os.environ, "HOME": str(home), "XDG_DATA_HOME": str(home), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, *command],
            stdin=self._child,
            stdout=self._child,
            stderr=self._child,
            env=environment,
            start_new_session=not has_jobs,
            process_group=0 if has_jobs else None,
        )
        self.seen = b""

    def until(self, wanted: bytes) -> None:
        """Read until something was written."""
        self._until(lambda: wanted in self.seen)

    def until_stopped(self, process: psutil.Process) -> None:
        """Read until a process is stopped."""
        self._until(lambda: process.status() == psutil.STATUS_STOPPED)

    def until_it_has_threads(self, process: psutil.Process, number: int) -> None:
        """Read until a process has so many threads."""
        self._until(lambda: process.num_threads() == number)

    def until_gone(self, process: psutil.Process) -> None:
        """Read until a process that is not ours to wait for has ended."""
        self._until(lambda: has_ended(process))
        self._read_all()

    def ended(self) -> int:
        """Read until the process has ended; return its code, or the signal's number below zero."""
        self._until(lambda: self.process.poll() is not None)
        return self.process.returncode

    def _until(self, shows: Callable[[], bool]) -> None:
        """Read until it shows, and what is there to be read then."""
        ends = time.monotonic() + SECONDS
        while not shows():
            assert time.monotonic() < ends, self.seen[-2000:]
            self._read(0.05)
        self._read_all()

    def _read_all(self) -> None:
        while self._read(0):
            pass

    def _read(self, seconds: float) -> bytes:
        ready, _, _ = select.select([self.parent], [], [], seconds)
        found = os.read(self.parent, 65536) if ready else b""
        self.seen += found
        return found

    @property
    def dashboard(self) -> psutil.Process:
        """The child in which the dashboard runs."""
        return psutil.Process(self.process.pid).children()[0]

    @property
    def is_sane(self) -> bool:
        """Whether modes are as they were, the shell's screen is in front, with its cursor, and the mouse is quiet."""
        modes = {mode: self.seen.rfind(b"\x1b[?%dh" % mode) for mode in (1000, 1003, 1006, 1049, 2004)}
        undone = all(self.seen.rfind(b"\x1b[?%dl" % mode) > at for mode, at in modes.items())
        cursor = self.seen.rfind(b"\x1b[?25h") > self.seen.rfind(b"\x1b[?25l")
        return undone and cursor and termios.tcgetattr(self._child) == self.before

    def close(self) -> None:
        if self.process.poll() is None:
            kill_all(psutil.Process(self.process.pid).children(recursive=True))
            self.process.kill()
            self.process.wait()
        os.close(self.parent)
        os.close(self._child)


@contextmanager
def opened(home: Path, *, has_jobs: bool = False) -> Iterator[Terminal]:
    """`treadle watch` on a port where nobody answers; it may take as long to end as a busy machine lets it."""
    command = f"from treadle_tui import guard; guard.GRACE_SECONDS = {SECONDS}; from treadle.cli import main; main()"
    shown = Terminal(home, "-c", command, "watch", "--url", "http://127.0.0.1:9", has_jobs=has_jobs)
    try:
        shown.until(b"No server")
        yield shown
    finally:
        shown.close()


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """The dashboard alone in its session."""
    with opened(tmp_path) as shown:
        yield shown


@pytest.mark.parametrize(
    "sent",
    [
        *(pytest.param(sent, marks=pytest.mark.crossed) for sent in (b"\xff", b"\xe4", "ü".encode()[:1] + b"x")),
        b"\x1b[M\x23\xf0\x21",
    ],
    ids=["no text", "Latin-1", "half", "mouse"],
)
def test_bytes_that_are_no_text_end_nothing(terminal: Terminal, sent: bytes) -> None:
    os.write(terminal.parent, sent)
    os.write(terminal.parent, b"?")
    terminal.until(b"Help")
    os.write(terminal.parent, b"qq")

    assert terminal.ended() == 0
    assert terminal.is_sane


@pytest.mark.parametrize(
    "behind", ["q\x1bq\x1b", *(pytest.param(other, marks=pytest.mark.crossed) for other in ("qq", "[31mqq\x1b[0m"))]
)
def test_no_letter_of_a_paste_is_a_key_because_an_escape_stands_before_it(terminal: Terminal, behind: str) -> None:
    os.write(terminal.parent, f"\x1b[200~a line\x1b{behind}\x1b[201~".encode())
    os.write(terminal.parent, b"?")
    terminal.until(b"Help")
    os.write(terminal.parent, b"qq")

    assert terminal.ended() == 0


def test_the_size_is_the_terminals_own_whatever_was_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    monkeypatch.setenv("LINES", "22")
    terminal = Terminal(tmp_path, "-c", MEASURING)
    try:
        terminal.until(b"<100x30>")
        termios.tcsetwinsize(terminal.parent, (41, 130))
        os.kill(terminal.dashboard.pid, signal.SIGWINCH)
        terminal.until(b"<130x41>")
    finally:
        terminal.close()


def test_after_quitting_everything_is_as_it_was(terminal: Terminal) -> None:
    assert SCREEN in terminal.seen
    assert not terminal.is_sane
    os.write(terminal.parent, b"q")

    assert terminal.ended() == 0
    assert terminal.is_sane


def test_after_kill_9_of_the_dashboard_the_terminal_is_restored_and_it_is_said(terminal: Terminal) -> None:
    terminal.dashboard.kill()

    assert terminal.ended() == 128 + signal.SIGKILL
    assert terminal.is_sane
    assert b"The dashboard was ended by SIGKILL" in terminal.seen


def test_after_kill_9_of_the_parent_the_dashboard_ends_in_good_order(terminal: Terminal) -> None:
    dashboard = terminal.dashboard
    os.kill(terminal.process.pid, signal.SIGKILL)

    terminal.until_gone(dashboard)
    assert terminal.is_sane


@pytest.mark.parametrize(
    ("whom", "number"),
    [
        ("parent", signal.SIGTERM),
        ("dashboard", signal.SIGHUP),
        pytest.param("parent", signal.SIGHUP, marks=pytest.mark.crossed),
        pytest.param("dashboard", signal.SIGTERM, marks=pytest.mark.crossed),
    ],
)
def test_after_a_signal_the_terminal_is_restored(terminal: Terminal, number: signal.Signals, whom: str) -> None:
    os.kill(terminal.process.pid if whom == "parent" else terminal.dashboard.pid, number)

    assert terminal.ended() == 128 + number
    assert terminal.is_sane


def test_after_ctrl_c_the_dashboard_is_still_there_or_gone_but_never_broken(terminal: Terminal) -> None:
    os.kill(terminal.dashboard.pid, signal.SIGINT)

    assert terminal.ended() == 128 + signal.SIGINT
    assert terminal.is_sane


def test_after_an_exception_the_terminal_is_restored_and_the_traceback_shown(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "-c", CRASHING)
    try:
        assert terminal.ended() == 1
        assert terminal.is_sane
        assert b"ZeroDivisionError" in terminal.seen
    finally:
        terminal.close()


def test_a_terminal_that_is_closed_ends_the_dashboard(tmp_path: Path) -> None:
    command = "from treadle.cli import main; main()"
    terminal = Terminal(tmp_path, "-c", command, "watch", "--url", "http://127.0.0.1:9")
    try:
        terminal.until(b"No server")
        processes = [psutil.Process(terminal.process.pid), terminal.dashboard]
        # What a terminal emulator does when its window is closed.
        for process in processes:
            process.send_signal(signal.SIGHUP)
        os.close(terminal.parent)
        terminal.parent = os.open(os.devnull, os.O_RDONLY)

        terminal.process.wait(SECONDS)
        _, alive = psutil.wait_procs(processes[1:], timeout=SECONDS)
        assert alive == []
    finally:
        terminal.close()


def test_a_stopped_dashboard_stops_its_parent_and_goes_on_with_it(terminal: Terminal) -> None:
    terminal.dashboard.suspend()
    parent = psutil.Process(terminal.process.pid)
    terminal.until_stopped(parent)

    parent.resume()
    os.write(terminal.parent, b"q")

    assert terminal.ended() == 0
    assert terminal.is_sane


def test_ctrl_z_gives_the_terminal_to_the_shell_and_fg_takes_it_back(tmp_path: Path) -> None:
    with opened(tmp_path, has_jobs=True) as terminal:
        shell = psutil.Process(terminal.process.pid)
        os.write(terminal.parent, b"\x1a")
        terminal.until_stopped(shell)
        assert terminal.is_sane

        terminal.seen = b""
        shell.resume()
        terminal.until(SCREEN)
        os.write(terminal.parent, b"q")

        assert terminal.ended() == 0
        assert terminal.is_sane


def test_ctrl_z_without_a_shell_says_that_nobody_could_wake_the_dashboard(terminal: Terminal) -> None:
    os.write(terminal.parent, b"\x1a")

    terminal.until(b"can't suspend: no shell started the dashboard")


@pytest.mark.parametrize("number", [signal.SIGTSTP, pytest.param(signal.SIGSTOP, marks=pytest.mark.crossed)])
def test_a_dashboard_that_goes_on_reads_keys_and_writes_once(terminal: Terminal, number: signal.Signals) -> None:
    dashboard, parent = terminal.dashboard, psutil.Process(terminal.process.pid)
    threads = dashboard.num_threads()
    for _ in range(3):
        dashboard.send_signal(number)
        terminal.until_stopped(parent)
        terminal.seen = b""
        # As a shell's `fg` does, which wakes both, before the parent does.
        dashboard.send_signal(signal.SIGCONT)
        terminal.until(SCREEN)
        terminal.seen = b""
        parent.resume()
        terminal.until(SCREEN)

    # The screen is drawn before the thread that reads the keys runs.
    terminal.until_it_has_threads(dashboard, threads)
    os.write(terminal.parent, b"q")
    assert terminal.ended() == 0
    assert terminal.is_sane


def test_what_the_dashboard_asks_of_a_terminal_is_all_undone(terminal: Terminal) -> None:
    asked = set(re.findall(rb"\x1b\[\?(\d+)h", terminal.seen)) - {b"25", b"7"}

    assert {mode for mode in asked if f"\x1b[?{mode.decode()}l" not in RESTORE} == set()


def test_without_a_terminal_there_is_no_second_process() -> None:
    code = "import os; from treadle_tui.guard import guarded; here = os.getpid(); print(guarded(os.getpid) == here)"

    shown = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, stdin=subprocess.DEVNULL)

    assert shown.stdout == b"True\n"
