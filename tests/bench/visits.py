"""The task that the targets' program runs: it finds out by itself whether it is alone in its target, and in its order.

`TREADLE_BENCH_ROOT` names the directory that all workers share.
"""

import asyncio
import os
from pathlib import Path

from treadle import task


class NotAloneError(RuntimeError):
    """Another task of the target runs at this moment."""


class OutOfOrderError(RuntimeError):
    """The task before this one has not run."""


def _enter(root: Path, place: str) -> None:
    try:
        os.close(os.open(root / f"{place}.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        raise NotAloneError(f"somebody else is in {place}") from None


def _follow(root: Path, place: str, n: int) -> None:
    last = root / f"{place}.last"
    before = int(last.read_text()) if last.exists() else -1
    if before != n - 1:
        raise OutOfOrderError(f"visitor {n} of {place} follows {before}")
    last.write_text(str(n))


# A failure must not stop the program: it counts them.
@task(max_retries=0, max_requeues=0, on_failure="release")
async def visit(place: str, n: int) -> None:
    """Enter the place, as its `n`-th visitor; raises `NotAloneError` or `OutOfOrderError`."""
    root = Path(os.environ["TREADLE_BENCH_ROOT"])
    _enter(root, place)
    try:
        # Whoever else was let in has the time to come.
        await asyncio.sleep(0)
        _follow(root, place, n)
    finally:
        (root / f"{place}.lock").unlink()
