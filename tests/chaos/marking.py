"""Tasks that say when they begin and end, to a file that all workers share."""

import asyncio
import os
import time

from tests.lines import append
from treadle import task


def say(what: str, n: int, target: str | None) -> None:
    """Append a line: what happened to which task, and when on the clock that all processes of the machine share."""
    line = f"{what} {n} {target or '-'} {time.monotonic():.6f}"
    append(os.environ["TREADLE_TEST_MARKS"], line)


@task(max_requeues=50, max_retries=0)
async def labour(n: int, seconds: float, target: str | None = None) -> int:
    say("begin", n, target)
    await asyncio.sleep(seconds)
    say("end", n, target)
    return n
