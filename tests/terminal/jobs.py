"""Tasks that run until they are stopped, so that what the screen shows stands still."""

import asyncio

from treadle import task


@task(category="modifiers")
async def rotate(angle: int) -> None:
    await asyncio.Event().wait()
