"""The task that `tests.bench.schedules` lets tick."""

from treadle import Every, task


@task(schedule=Every(1, name="tick"))
async def tick() -> None:
    """Do nothing, every second."""
