"""A blocking client among greenlets, and after its program's main thread has ended."""

import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("greenlets.py")
ENDED_MAIN = Path(__file__).with_name("ended_main.py")


def test_a_client_among_greenlets_leaves_them_their_thread(treadle_server: Any) -> None:
    """Its event loop was the running one of every greenlet: Django refused all queries of gunicorn's gevent workers."""
    told = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", PROGRAM, treadle_server.url, treadle_server.token],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (told.stdout.splitlines(), told.returncode) == (
        ["None a loop of its own", "['pending']", "False True", "True True", "21"],
        0,
    ), told.stderr


def test_a_client_finds_its_server_once_the_main_thread_has_ended(treadle_server: Any) -> None:
    """Names are resolved in a pool of threads, and Python's take nothing more from then on."""
    by_name = treadle_server.url.replace("127.0.0.1", "localhost")
    told = subprocess.run(
        [sys.executable, "-X", "dev", "-W", "error", ENDED_MAIN, by_name, treadle_server.token],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    # Python 3.12.0 and 3.12.1 start no thread then, whoever asks.
    places = [] if (3, 12) <= sys.version_info < (3, 12, 2) else ["thread", "exit"]
    assert told.stdout.splitlines() == [f"{place} pending" for place in places], told.stderr
