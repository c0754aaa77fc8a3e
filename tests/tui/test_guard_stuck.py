"""A dashboard that can't end by itself any more, for it is stuck in a write to a terminal that is gone, is ended."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.children import kill_all
from tests.waiting import SECONDS

STUCK = """
import os, signal, sys, time
from treadle_tui import guard

fork, (heard, said) = os.fork, os.pipe()

def show():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    os.write(said, b"!")
    print("stuck", os.getpid(), flush=True)
    while True:
        signal.pause()

def fork_and_be_told():
    if child := fork():
        os.read(heard, 1)
        os.kill(os.getpid(), signal.SIGTERM)
    return child

if sys.argv[1:]:
    os.fork = fork_and_be_told

guard.GRACE_SECONDS = 0.2
sys.exit(guard.guarded(show))
"""


@pytest.fixture(params=[()])
def stuck(request: pytest.FixtureRequest) -> Iterator[tuple["subprocess.Popen[bytes]", psutil.Process]]:
    """A guarded process that heeds no signal, on a terminal: the guard, and the one that is guarded."""
    ours, theirs = os.openpty()
    guard = subprocess.Popen([sys.executable, "-c", STUCK, *request.param], stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    while b"\n" not in said:
        said += os.read(ours, 100)
    child = psutil.Process(int(said.split()[1]))
    try:
        yield guard, child
    finally:
        kill_all([child])
        guard.kill()
        guard.wait()
        os.close(ours)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_told_to_end_it_is_killed_after_a_grace(
    stuck: tuple["subprocess.Popen[bytes]", psutil.Process], number: signal.Signals
) -> None:
    guard, child = stuck

    guard.send_signal(number)

    assert guard.wait(SECONDS) == 128 + signal.SIGKILL
    assert not child.is_running()


@pytest.mark.parametrize("stuck", [("told-at-once",)], indirect=True)
def test_told_to_end_as_it_begins_it_passes_that_on(stuck: tuple["subprocess.Popen[bytes]", psutil.Process]) -> None:
    guard, child = stuck

    assert guard.wait(SECONDS) == 128 + signal.SIGKILL
    assert not child.is_running()


def test_it_does_not_outlive_its_guard(stuck: tuple["subprocess.Popen[bytes]", psutil.Process]) -> None:
    guard, child = stuck

    guard.kill()

    _, alive = psutil.wait_procs([child], timeout=SECONDS)
    assert alive == []
