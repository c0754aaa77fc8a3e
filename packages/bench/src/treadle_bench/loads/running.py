"""Starts loads, waits for them, and reads their answers."""

import json
import time
from collections.abc import Callable
from typing import Any

from treadle.wire.amounts import in_seconds
from treadle_bench.children import Child, Children
from treadle_bench.figures import BenchFailed
from treadle_bench.loads.process import MODULE

START_SECONDS = 60.0
"""How long a process may take to be ready."""

LOOK_SECONDS = 0.005
"""How often to check for something that is about to happen."""

MEASURE_SECONDS = 3600.0
"""How long a load may take before it is given up."""


def start(children: Children, load: str, arguments: dict[str, Any], *, name: str | None = None) -> Child:
    """Start a load in a process of its own; `name` is for its log, if there are several of its kind."""
    return children.start(name or load, load, json.dumps(arguments), module=MODULE)


def until(happened: Callable[[], bool], child: Child, complaint: str) -> None:
    """Wait until something has happened. Raises `BenchFailed` if the process ends before that or takes too long."""
    limit = time.monotonic() + START_SECONDS
    while not happened():
        if not child.is_running:
            raise BenchFailed(f"{complaint}, and ended with {child.process.returncode}:\n{child.output()[-2000:]}")
        if time.monotonic() > limit:
            raise BenchFailed(f"{complaint} within {in_seconds(START_SECONDS)}:\n{child.output()[-2000:]}")
        time.sleep(LOOK_SECONDS)


def ready(child: Child, key: str, complaint: str) -> Any:
    """Wait until a running load reports that it is ready, and return what it reports under `key`.

    Raises `BenchFailed` as `until` does.
    """
    begin = f'{{"{key}": '
    # Only a complete line has a value.
    until(lambda: "}\n" in child.output().partition(begin)[2], child, complaint)
    return next(json.loads(line)[key] for line in child.output().splitlines() if line.startswith(begin))


def finish(child: Child, load: str) -> Any:
    """Wait until a load has ended by itself, and return its answer. Raises `BenchFailed`."""
    limit = time.monotonic() + MEASURE_SECONDS
    while child.is_running:
        if time.monotonic() > limit:
            raise BenchFailed(f"{load} did not end within {in_seconds(MEASURE_SECONDS)}")
        time.sleep(LOOK_SECONDS)
    return answer_of(child, load)


def answer_of(child: Child, load: str) -> Any:
    """Return the answer of a load that has ended. Raises `BenchFailed` if it failed."""
    lines = child.output().splitlines()
    if child.process.returncode != 0 or not lines:
        raise BenchFailed(f"{load} ended with {child.process.returncode}:\n{child.output()[-1000:]}")
    return json.loads(lines[-1])
