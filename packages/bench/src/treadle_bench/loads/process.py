"""Runs a load in a process of its own: `python -m treadle_bench.loads.process FD NAME ARGUMENTS`.

ARGUMENTS are JSON. A load prints a line of JSON when it is done; one that runs until it is stopped prints another one
before, when it is ready.
"""

import asyncio
import importlib
import json
import signal
import sys
from typing import Any

from treadle.loops import loop_factory
from treadle_bench.die_with_parent import die_with_parent

MODULE = "treadle_bench.loads.process"

LOADS = {
    "claim-http": "treadle_bench.loads.http:claim",
    "echo": "treadle_bench.loads.echo:ask",
    "echo-server": "treadle_bench.loads.echo:serve",
    "latency": "treadle_bench.loads.submitting:latency",
    "observe": "treadle_bench.loads.observers:observe",
    "pace": "treadle_bench.loads.submitting:pace",
    "postgres": "treadle_bench.loads.postgres:serve",
    "read-http": "treadle_bench.loads.http:read",
    "snapshot": "treadle_bench.loads.postgres:hold_snapshot",
    "submit": "treadle_bench.loads.submitting:submit",
    "submit-http": "treadle_bench.loads.http:submit",
    "workers": "treadle_bench.loads.workers:serve",
}
"""The location of each load's coroutine function."""


def main() -> None:
    """Run the load; end with the process that started it."""
    pipe, name, arguments = sys.argv[1:]
    die_with_parent(int(pipe))
    module, _, function = LOADS[name].partition(":")
    load = getattr(importlib.import_module(module), function)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        say(runner.run(load(**json.loads(arguments))))


def say(value: Any) -> None:
    """Print a line for the process that started this one."""
    print(json.dumps(value), flush=True)  # noqa: T201 - how loads answer


async def stopped() -> None:
    """Wait for SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


if __name__ == "__main__":
    main()
