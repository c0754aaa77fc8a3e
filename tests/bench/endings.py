"""The task that the pruning program runs."""

from treadle import task


@task(max_retries=0, max_requeues=0)
async def end(n: int) -> int:
    """Do nothing."""
    return n
