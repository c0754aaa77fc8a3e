"""The job whose tasks stand in the page."""

from treadle import task


@task(category="modifiers")
async def rotate(angle: int) -> None:
    pass
