"""What the server's process asks of the system: memory that a batch has freed, and files."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy.engine import make_url

from treadle.cli.group import treadle
from treadle_server.settings import sqlite_url
from treadle_server.store.sqlite.lock import hold_lock

_BATCHES = """
import resource, sys
from treadle_server import cli

if sys.argv[1] == "kept":
    cli._keep_freed_memory()

def batch():
    blocks = [bytearray(100_000) for _ in range(100)]  # 10 MB: far more than glibc keeps by itself
    del blocks
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

batch()
before = batch()
for _ in range(10):
    after = batch()
print(after - before)
"""


def test_what_a_batch_frees_is_there_for_the_next() -> None:
    """Pages that the system has to clear anew, of ten batches of 2,400."""
    given_back, kept = (
        int(subprocess.run([sys.executable, "-c", _BATCHES, how], capture_output=True, check=True, text=True).stdout)
        for how in ("given back", "kept")
    )

    assert given_back > 20_000
    assert kept < 1_000


@pytest.mark.parametrize("files", [10, 24])
def test_a_server_that_may_open_too_few_files_says_so_in_a_sentence(files: int, tmp_path: Path) -> None:
    """It ended with tracebacks, or fell over soon."""
    words = f"ulimit -n {files} && exec {sys.executable} -m treadle server --port 0 --data-dir {tmp_path}/data"

    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: this process may open {files} files, but a server needs at least 64: ")
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_server_that_can_not_start_says_why_and_nothing_else(tmp_path: Path) -> None:
    """Beside the reason stood that the application's startup had failed, and in a log of JSON that alone."""
    command = [sys.executable, "-m", "treadle", "server", "--port", "0", "--data-dir", str(tmp_path)]
    with hold_lock(make_url(sqlite_url(tmp_path / "treadle.db"))):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: another server is using ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["server", "migrate"])
def test_a_database_that_does_not_answer_is_named_without_its_password(command: str, tmp_path: Path) -> None:
    """It was told as "the database", whose address may be in a file of the system's that starts the server."""
    result = CliRunner().invoke(
        treadle,
        [command, "--data-dir", str(tmp_path), *(["--port", "0"] if command == "server" else [])],
        env={"TREADLE_DATABASE_URL": "postgresql://me:secret@127.0.0.1:1/tasks"},
    )

    assert result.exit_code == 1
    assert result.stderr.startswith(
        "Error: postgresql://me:***@127.0.0.1:1/tasks: the database does not answer ([Errno "
    )


_INTERRUPTED_AT_THE_END = """
import atexit, os, signal
from treadle.cli import main

atexit.register(os.kill, os.getpid(), signal.SIGINT)
main()
"""


def test_a_second_interrupt_of_a_server_that_has_ended_leaves_no_traceback(tmp_path: Path) -> None:
    """While its loop was being closed it left one of uvloop's, and one of Python's a moment later."""
    command = [sys.executable, "-c", _INTERRUPTED_AT_THE_END, "server", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        while "Press Ctrl-C" not in server.stdout.readline():
            assert server.poll() is None
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)

    assert server.returncode == 0
    assert "KeyboardInterrupt" not in said
