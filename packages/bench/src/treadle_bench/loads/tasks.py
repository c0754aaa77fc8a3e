"""The tasks that the benchmark's workers run: they do nothing but record when they start.

`TREADLE_BENCH_DIR` is the directory where a worker records its first start, and `TREADLE_BENCH_JOBS` the number of
no-op queues that it serves.
"""

import os
import time
from functools import cache
from pathlib import Path

from treadle.tasks.decorator import task
from treadle.tasks.definition import Task

DIRECTORY = "TREADLE_BENCH_DIR"
JOBS = "TREADLE_BENCH_JOBS"


@cache
def note_start() -> None:
    """Record when this process ran its first task, in ns of the monotonic clock that all processes share."""
    now = time.monotonic_ns()
    if directory := os.environ.get(DIRECTORY):
        path = Path(directory, f"first-{os.getpid()}")
        # Renamed into place, so that a reader never finds it incomplete.
        path.with_suffix(".new").write_text(str(now))
        path.with_suffix(".new").rename(path)


def make_job(number: int) -> "Task[[int], None]":
    """Return the no-op whose queue has this number; its payload is `{"n": i}`."""

    @task(name=f"noop-{number}")
    async def noop(n: int) -> None:
        note_start()

    return noop


@task
async def stamp(n: int) -> int:
    """Return when it began, in ns of the monotonic clock: the start's time reaches the submitter with the result."""
    return time.monotonic_ns()


@task
async def carry(n: int, data: str) -> int:
    """As `stamp`, with a payload of any size."""
    now = time.monotonic_ns()
    note_start()
    return now


# The worker command collects the tasks at the top level of a module.
globals().update({f"noop_{number}": make_job(number) for number in range(int(os.environ.get(JOBS, "1")))})
