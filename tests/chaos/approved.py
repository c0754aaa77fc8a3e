"""The agent that asks a person first, for tests that kill its worker: what its steps call waits until it may go on."""

import functools
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from examples import approved_agent

assistant = approved_agent.assistant
"""For the worker, which takes the tasks of a module by their names there."""


def _gated(function: Callable[..., Any]) -> Callable[..., Any]:
    """Note each call, and block its thread or the loop until the test has killed the worker that was here first."""

    @functools.wraps(function)
    def gated(*args: Any) -> Any:
        place, name = Path(os.environ["TREADLE_TEST_MARKS"]), f"{function.__name__} {args[0]}"
        with (place / "calls").open("a") as file:
            file.write(f"{name}\n")
        while not (place / f"open {name}").exists():
            time.sleep(0.01)
        return function(*args)

    return gated


for each in (approved_agent.plan, approved_agent.use, approved_agent.invite):
    setattr(approved_agent, each.__name__, _gated(each))
