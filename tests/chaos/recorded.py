"""A task that leaves a mark for each time it runs; what the workers of the chaos tests serve."""

import os

from tests.lines import append
from treadle import task


@task(lease_seconds=3, max_requeues=20)
async def mark(n: int) -> int:
    """Append the number to the file that the environment names: one short line, written at once."""
    append(os.environ["TREADLE_TEST_MARKS"], str(n))
    return n
