"""Code that stops its worker's event loop, or cancels all of its tasks, ends the worker, which says so."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("taking.py")
EMBEDDING = PROGRAM.with_name("embedding.py")


@pytest.mark.parametrize(
    ("name", "how", "told"),
    [
        ("stops", "stopped the loop", "RAISED"),
        ("cancels", "cancelled the worker's own tasks, which asyncio.all_tasks() returns too", "RAISED"),
        ("waits", "cancelled the worker's own tasks, which asyncio.all_tasks() returns too", "ERROR"),
    ],
)
def test_code_that_takes_the_loop_ends_its_worker_which_says_so(
    treadle_server: Any, name: str, how: str, told: str
) -> None:
    """It was said that the server had refused the worker; the last of these kept it there for ever."""
    done = subprocess.run(
        [sys.executable, PROGRAM, treadle_server.url, treadle_server.token, name],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (
        f"{told} code in the worker's event loop {how}, so the worker ends; async tasks running then:"
        f" @global:tasks:{name}" in done.stdout
    )
    assert "the server refused the worker" not in done.stdout + done.stderr
    assert done.stdout.count("code in the worker's event loop cancelled") == (name != "stops") + (name == "cancels")


@pytest.mark.parametrize("how", ["left", "cancelled"])
def test_a_worker_whose_programs_loop_ends_says_so_and_blames_no_code(treadle_server: Any, how: str) -> None:
    """It was said that code had cancelled the worker, and of each run, with a traceback, that it had failed."""
    done = subprocess.run(
        [sys.executable, EMBEDDING, treadle_server.url, treadle_server.token, how],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert done.stdout.count("WARNING the worker was cancelled with everything in its event loop, as asyncio.run") == 1
    assert "ERROR" not in done.stdout
    assert done.stderr == ""
