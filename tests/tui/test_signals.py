"""N2's other end: a dashboard that nobody can look at does not begin, and one that was told to end does."""

import os
import pty
import select
import signal
import subprocess
import sys

import pytest

from tests.waiting import SECONDS

WATCH = [sys.executable, "-P", "-c", "from treadle.cli import main; main()", "watch", "--url", "http://127.0.0.1:9"]

STUCK = """
import asyncio, queue, sys
from treadle_tui import signals
signals.GRACE_SECONDS = 0.2
async def main():
    signals.end_by_signals(lambda number: None)
    print("up", flush=True)
    queue.Queue().get() if sys.argv[1] == "blocked" else await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("terminal", ["nothing", "its input", "its output", "a dumb one"])
def test_a_dashboard_without_a_whole_terminal_refuses_and_names_what_does_without(terminal: str) -> None:
    parent, child = pty.openpty()
    try:
        process = subprocess.Popen(
            WATCH,
            stdin=child if terminal in {"its input", "a dumb one"} else subprocess.DEVNULL,
            stdout=child if terminal in {"its output", "a dumb one"} else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "TERM": "dumb" if terminal == "a dumb one" else "xterm"},
        )
        try:
            out, said = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            process.wait()
        painted, _, _ = select.select([parent], [], [], 0)
    finally:
        os.close(child)
        os.close(parent)

    assert process.returncode == 2
    assert b"needs a terminal" in said
    assert b"--json" in said
    assert (out or b"", painted) == (b"", [])


@pytest.mark.parametrize("state", ["blocked", "deaf"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_dashboard_whose_loop_stands_still_or_that_does_not_come_to_its_end(
    number: signal.Signals, state: str
) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK, state], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        with process.stdout as output:
            assert output.readline() == b"up\n"
            process.send_signal(number)
            assert process.wait(SECONDS) == -number
    finally:
        process.kill()
        process.wait()
