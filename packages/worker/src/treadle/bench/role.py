"""A load, an observer or a database in a process of its own: `python -m treadle.bench.role FD NAME ARGUMENTS`.

ARGUMENTS are JSON. A role prints one line of JSON when it is done; one that stays until it is stopped prints another
one before, when it is ready.
"""

import asyncio
import importlib
import json
import signal
import sys
from typing import Any

from treadle.demo.leash import hold
from treadle.loops import loop_factory

MODULE = "treadle.bench.role"

ROLES = {
    "claim-http": "treadle.bench.http_load:claim",
    "crew": "treadle.bench.crew:crew",
    "echo": "treadle.bench.limits:echo",
    "echo-server": "treadle.bench.limits:serve",
    "latency": "treadle.bench.submitting:latency",
    "observe": "treadle.bench.observing:observe",
    "pace": "treadle.bench.submitting:pace",
    "postgres": "treadle.bench.databases:serve",
    "read-http": "treadle.bench.http_load:read",
    "snapshot": "treadle.bench.databases:hold_snapshot",
    "submit": "treadle.bench.submitting:submit",
    "submit-http": "treadle.bench.http_load:submit",
}
"""Where each role's coroutine function stands."""


def main() -> None:
    """Play the role; end with whoever started it."""
    pipe, name, arguments = sys.argv[1:]
    hold(int(pipe))
    module, _, function = ROLES[name].partition(":")
    role = getattr(importlib.import_module(module), function)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        say(runner.run(role(**json.loads(arguments))))


def say(value: Any) -> None:
    """Print a line for whoever started this process."""
    print(json.dumps(value), flush=True)  # noqa: T201 - how roles answer


async def stopped() -> None:
    """Wait for SIGTERM."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    await stop.wait()


if __name__ == "__main__":
    main()
