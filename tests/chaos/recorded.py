"""A task that leaves a mark for each time it runs; what the workers of the chaos tests serve."""

import os
from pathlib import Path

from treadle import task


@task(lease_seconds=3, max_requeues=20)
async def mark(n: int) -> int:
    """Append the number to the file that the environment names: one short line, written at once."""
    path = Path(os.environ["TREADLE_TEST_MARKS"])
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, f"{n}\n".encode())
    finally:
        os.close(descriptor)
    return n
