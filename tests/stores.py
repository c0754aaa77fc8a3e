"""The stores of several servers on one database."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from treadle_server.store.store import SqlStore


@asynccontextmanager
async def opened(url: str, count: int) -> AsyncIterator[list[SqlStore]]:
    """Open so many; on PostgreSQL none of several is the exclusive writer."""
    async with AsyncExitStack() as stack:
        found = [SqlStore(url) for _ in range(count)]
        for store in found:
            await store.open()
            stack.push_async_callback(store.close)
        yield found
