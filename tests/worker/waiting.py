"""Waiting for what has no event: a log, a connection, a file, the state of a server."""

import asyncio
from collections.abc import Awaitable, Callable

LOOK_SECONDS = 0.02
"""How often it is looked for."""

MOST_SECONDS = 20.0
"""What no machine is too busy for."""


async def until(question: Callable[[], Awaitable[bool]]) -> None:
    """Wait until a question, which is awaited, is answered by yes. Raises `TimeoutError`."""
    async with asyncio.timeout(MOST_SECONDS):
        while not await question():  # noqa: ASYNC110 - none of these has an event here
            await asyncio.sleep(LOOK_SECONDS)


async def seen(question: Callable[[], bool]) -> None:
    """Wait until a question is answered by yes. Raises `TimeoutError`."""

    async def asked() -> bool:
        return question()

    await until(asked)
