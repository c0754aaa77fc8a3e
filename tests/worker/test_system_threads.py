"""A blocking client where gevent has put greenlets in the place of threads."""

import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = Path(__file__).with_name("greenlets.py")


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
