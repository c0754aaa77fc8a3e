"""N4: what reaches a terminal beside the answers of commands: logs, summaries, tracebacks, a stream of events."""

import json
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.worker.cli.hostile import JOINED, LINES, VALUE, Filled
from tests.worker.cli.pseudo import Terminal, obeyed, text_of
from treadle.cli import unforeseen
from treadle_bench.demo.report import print_summary
from treadle_bench.demo.summary import Summary
from treadle_server import cli as server_cli
from treadle_server import log
from treadle_server.settings import Settings
from treadle_server.testing import Served, serve_in_thread

JOBS = """
import logging
from treadle import task

@task
async def speaks(text: str) -> None:
    logging.getLogger("theirs").warning(text)
"""


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server of its own: what is there is no other test's."""
    with serve_in_thread() as served:
        yield served


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setenv("COLUMNS", "2000")
    return Terminal(monkeypatch)


def assert_clean(shown: str) -> None:
    text = text_of(shown)
    assert obeyed(text) == [], text
    assert not any(line.startswith("FORGED") for line in text.split("\n")), text
    assert "\\u202e" in text, text
    assert JOINED in text, text


def test_n4_a_servers_greeting_and_its_log_are_clean(terminal: Terminal, tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / VALUE.replace("/", ""))

    def speak() -> None:
        server_cli._say_hello(settings, "http://127.0.0.1:1")  # as the command does once it listens
        with logging_of_a_server() as logger:
            logger.error("It failed of %s", LINES, exc_info=ValueError(LINES))

    code, shown = terminal.during(speak)

    assert code == 0
    assert shown.count(JOINED) >= 3
    assert "\n  FORGED" in text_of(shown)
    assert_clean(shown)


@contextmanager
def logging_of_a_server() -> Iterator[logging.Logger]:
    """Have a logger that writes as `treadle server` does."""
    root, before = logging.getLogger(), logging.getLogger().handlers[:]
    level = root.level
    root.handlers.clear()
    log.begin()
    try:
        yield logging.getLogger("theirs")
    finally:
        root.handlers[:] = before
        root.setLevel(level)


@pytest.mark.parametrize("is_json", [False, True])
def test_n4_the_demos_summary_is_clean(terminal: Terminal, tmp_path: Path, *, is_json: bool) -> None:
    summary = Summary(
        files=1, completed=0, failed=1, cancelled=0, open=1, errors={LINES: 1}, failures={VALUE: VALUE}, adds_up=False,
        slowest={VALUE: 1.0}, seconds=1.0, tasks_per_second=1.0, wait_p50=0.0, wait_p95=0.0, totals=None,
    )  # fmt: skip

    code, shown = terminal.during(lambda: print_summary(summary, kept=tmp_path / VALUE, is_json=is_json))

    assert code == 0
    assert obeyed(text_of(shown)) == []
    assert "u202e" in shown


def test_n4_a_defects_traceback_and_warnings_without_a_log_are_clean(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = logging.StreamHandler()
    monkeypatch.setattr("logging.lastResort", last)
    monkeypatch.setattr("sys.excepthook", sys.excepthook)

    def speak() -> None:
        unforeseen.clean_uncaught_output()
        last.setStream(sys.stderr)
        last.handle(logging.makeLogRecord({"msg": LINES, "levelno": logging.WARNING}))
        sys.excepthook(ValueError, ValueError(LINES), None)

    code, shown = terminal.during(speak)

    assert code == 0
    assert "ValueError: " in shown
    assert shown.count(JOINED) >= 2
    assert_clean(shown)


@contextmanager
def real(served: Served, *words: str, at: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """Run `treadle WORDS…` as a process on our terminal, at the latest until the end of the block."""
    environment = {**os.environ, "TREADLE_URL": served.url, "TREADLE_TOKEN": served.token, "PYTHONUTF8": "1"}
    screen = sys.stdout.fileno()
    process = subprocess.Popen(
        [sys.executable, "-m", "treadle", *words], cwd=at, env=environment, stdout=screen, stderr=screen
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def test_n4_the_stream_of_events_is_clean_and_each_line_is_json(
    terminal: Terminal, served: Served, tmp_path: Path
) -> None:
    """The real process, until Ctrl-C."""
    opened: list[str] = []

    def work() -> None:
        with real(served, "watch", "--json") as process:
            with httpx.Client(base_url=served.url, headers=served.headers) as http:
                filled = Filled(http, tmp_path)
                # What happened before it follows the events is not told.
                while not any(terminal.wait_for(task_id, seconds=0.05) for task_id in opened):
                    assert process.poll() is None
                    opened.append(filled.open())
            process.send_signal(signal.SIGINT)
            assert process.wait(60) == 130

    _, shown = terminal.during(work)

    assert obeyed(text_of(shown)) == []
    lines = [json.loads(line) for line in text_of(shown).splitlines()]
    assert any(line["task"]["tags"] == {VALUE: VALUE} for line in lines if line["type"] == "task.updated")


def test_n4_what_a_worker_logs_is_clean(terminal: Terminal, served: Served, tmp_path: Path) -> None:
    """The real process: a task logs what would do harm."""
    (tmp_path / "nasty.py").write_text(JOBS)

    def work() -> None:
        with real(served, "worker", "nasty", at=tmp_path) as process:
            assert terminal.wait_for("is open", seconds=60)
            with httpx.Client(base_url=served.url, headers=served.headers) as http:
                submitted = http.post("/v1/rooms/@global/tasks/@global:tasks:speaks", json={"payload": {"text": LINES}})
                assert submitted.is_success, submitted.text
            assert terminal.wait_for("FORGED", seconds=60)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0

    _, shown = terminal.during(work)

    assert_clean(shown)
