"""What a command says beside its output is a line of its log, where it writes one as JSON (F5)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from treadle.cli import notices

COMMAND = (sys.executable, "-c", "from treadle.cli import main; main()")


def said(words: str, directory: Path) -> tuple[int, str]:
    """Run a command that misspells a variable, and return its exit code and all that it said."""
    given = {"TREADLE_LOG_FORMAT": "json", "TREADLE_TOKNE": "secret", "TREADLE_DATA_DIR": str(directory)}
    both = subprocess.STDOUT
    ended = subprocess.run(
        [*COMMAND, *words.split()],
        cwd=directory, env={"PATH": "/usr/bin:/bin", **given}, stdout=subprocess.PIPE, stderr=both, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    return ended.returncode, ended.stdout


@pytest.mark.parametrize(
    ("words", "code", "why"),
    [
        ("server --port 99999", 2, "--port: write at most 65535, not 99999"),
        ("server --host 192.0.2.1 --port 0", 1, "can't listen on 192.0.2.1 port 0: "),
        ("server --nope", 2, "No such option '--nope'."),
        ("migrate --database-url nope://", 2, "unsupported database 'nope'"),
        ("worker no.such.module", 2, "there is no module 'no.such.module'"),
        ("outbox", 2, "which database? Give --database URL"),
    ],
)
def test_a_start_that_fails_and_a_variable_that_nothing_reads_are_lines_of_a_log_that_is_json_f5(
    words: str, code: int, why: str, tmp_path: Path
) -> None:
    ended, text = said(words, tmp_path)

    warned, failed = [json.loads(line) for line in text.splitlines()]
    assert ended == code
    assert (warned["level"], failed["level"]) == ("warning", "error")
    assert warned["event"].startswith("the variable TREADLE_TOKNE is not a Treadle setting")
    assert failed["event"].startswith(why)


def test_what_a_worker_serves_python_warns_of_and_ends_it_are_lines_of_its_log_f5(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("import warnings, treadle\n@treadle.task\ndef sold() -> None: ...\n"
                                      "warnings.warn('old')\n")  # fmt: skip
    (tmp_path / "broken.py").write_text("1 / 0\n")

    served = [json.loads(line) for line in said("worker shop -c 1 --min-concurrency 2", tmp_path)[1].splitlines()]
    failed = [json.loads(line) for line in said("worker broken", tmp_path)[1].splitlines()]

    assert "UserWarning: old" in served[1]["event"]
    assert served[2]["event"] == "Tasks: @global:tasks:sold"
    assert served[3]["level"] == "error"
    assert failed[-1]["level"] == "critical"
    assert failed[-1]["exception"].endswith("ZeroDivisionError: division by zero")


def test_a_command_that_writes_no_log_says_it_to_who_reads_f5(tmp_path: Path) -> None:
    _, text = said("tasks --nope", tmp_path)

    assert text.startswith("Warning: the variable TREADLE_TOKNE")
    assert text.endswith("Error: No such option '--nope'.\n")


def test_without_structlog_it_is_said_in_words_f5(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "structlog", None)
    monkeypatch.setenv("treadle_log_format", "json")

    notices.begin("server")
    notices.warn("so it is")

    assert capsys.readouterr().err == "Warning: so it is\n"
