"""A process that code keeps alive after its command has ended says what it waits for."""

import signal
import subprocess
import sys
from pathlib import Path

MODULE = """
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

ThreadPoolExecutor().submit(print)
threading.Thread(target=sys.stdin.read, name="reads-its-input").start()
sys.exit()
"""


def test_a_command_that_leaves_no_thread_begins_none_at_its_end() -> None:
    """It loaded pydantic beside the end of `treadle --help`, and now and then before it."""
    script = (
        "import sys, threading; sys.argv = ['treadle', '--help']\n"
        "from treadle.cli import main\n"
        "try: main()\n"
        "except SystemExit: print([thread is threading.main_thread() for thread in threading.enumerate()])"
    )

    said = subprocess.check_output([sys.executable, "-c", script], text=True)

    assert said.splitlines()[-1] == "[True]"


def test_a_process_that_waits_for_a_thread_names_it(tmp_path: Path) -> None:
    """A worker that was told to stop stood there without a word; here its module ends it."""
    (tmp_path / "left.py").write_text(MODULE)
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "worker", "left"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        told = [process.stderr.readline(), process.stderr.readline()]
        process.stdin.close()
        rest, code = process.stderr.read(), process.wait(30)

    assert "left called sys.exit when it was imported" in told[0]
    assert told[1].startswith("The command has ended, but its process waits for reads-its-input: start a thread")
    assert (rest, code) == ("", 1)


def test_a_process_that_waits_for_a_thread_is_ended_by_a_further_signal(tmp_path: Path) -> None:
    """What serves has stopped by then, and all is stored."""
    (tmp_path / "left.py").write_text(MODULE)
    command = [sys.executable, "-c", "from treadle.cli import main; main()", "worker", "left"]
    with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert "its process waits for" in process.stderr.readline() + process.stderr.readline()
        process.send_signal(signal.SIGTERM)

        assert process.wait(30) == -signal.SIGTERM
