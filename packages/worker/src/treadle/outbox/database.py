"""The user's database as the relay uses it: transactions on its engine, async or in a thread of its own."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Dialect, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from treadle.loops import wait_to_its_end
from treadle.outbox.rows import LOCKING
from treadle.settings import InvalidSetting

R = TypeVar("R")

log: logging.Logger = logging.getLogger("treadle.outbox")

CLOSING = 2.0
"""Seconds that a database has to close its connections: one that is frozen never would."""

_DRIVERS = ("psycopg", "psycopg2", "asyncpg")
"""The drivers for PostgreSQL, in the order of preference for a URL that names none."""


Do = Callable[..., Awaitable[Any]]
"""Calls a function with the transaction's connection, which is not async there, and further arguments."""


class Database:
    """An engine, given or created from a URL; one that was created here is disposed of at the end."""

    def __init__(self, given: Engine | AsyncEngine | URL | str) -> None:
        """Raises `InvalidSetting` for an invalid URL, or one whose driver is not installed."""
        self._is_ours = isinstance(given, URL | str)
        engine = _engine(given) if isinstance(given, URL | str) else given
        self.url: URL = engine.url
        self.dialect: Dialect = engine.dialect
        self.locks: bool = engine.dialect.name in LOCKING
        """Whether rows taken in a transaction are locked against other relays until it ends."""
        if self.locks:
            # A stricter isolation level would make concurrent writers wait, or fail because of them.
            engine = engine.execution_options(isolation_level="READ COMMITTED")
        self._engine = engine
        self._thread: ThreadPoolExecutor | None = None
        """The thread that waits for a database that is not async; only one, as SQLite connections belong to a
        thread."""

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Do]:
        """Open a transaction, which commits at the end of the block, or rolls back if the block raises."""
        if isinstance(self._engine, AsyncEngine):
            async with self._engine.begin() as connection:
                yield connection.run_sync
            return
        begun = self._engine.begin()
        opened = await self._aside(begun.__enter__)
        try:
            yield partial(self._with, opened)
        except BaseException as error:
            await self._aside(begun.__exit__, type(error), error, error.__traceback__)
            raise
        await self._aside(begun.__exit__, None, None, None)

    async def close(self) -> None:
        """Close what was opened here; it is opened again on the next use."""
        if isinstance(self._engine, AsyncEngine):
            if self._is_ours:
                await _disposed(self._engine)
            return
        if self._is_ours:
            await self._aside(self._engine.dispose)
        if (thread := self._thread) is not None:
            self._thread = None
            thread.shutdown()

    async def _with(self, connection: Connection, work: Callable[..., R], *arguments: Any) -> R:
        return await self._aside(work, connection, *arguments)

    async def _aside(self, work: Callable[..., R], *arguments: Any) -> R:
        """Call a function in the thread; waits for it to end even if cancelled."""
        self._thread = self._thread or ThreadPoolExecutor(1, "treadle-outbox")
        return await wait_to_its_end(
            asyncio.get_running_loop().run_in_executor(self._thread, partial(work, *arguments))
        )


async def _disposed(engine: AsyncEngine) -> None:
    try:
        async with asyncio.timeout(CLOSING):
            await engine.dispose()
    except TimeoutError:
        log.warning("the outbox's database does not answer; giving up its connections")


def _engine(given: URL | str) -> Engine | AsyncEngine:
    try:
        url = make_url(given)
        if url.drivername in {"postgresql", "postgres"}:
            driver = next((name for name in _DRIVERS if find_spec(name)), "psycopg")
            url = url.set(drivername=f"postgresql+{driver}")
        if url.drivername == "postgresql+asyncpg":
            url = _for_asyncpg(url)
        if url.get_dialect().is_async:
            return create_async_engine(url, hide_parameters=True, pool_pre_ping=True)
        return create_engine(url, hide_parameters=True, pool_pre_ping=True)
    except (ArgumentError, NoSuchModuleError, ValueError) as error:
        raise InvalidSetting(f"the outbox's database can't be used: {error}; write an SQLAlchemy URL") from None
    except ModuleNotFoundError as error:
        raise InvalidSetting(
            f"the outbox's database needs the driver {error.name}, which is not installed: install it, or choose"
            " another one in the URL, such as postgresql+asyncpg://…"
        ) from None


def _for_asyncpg(url: URL) -> URL:
    """Return the URL with `ssl` for `sslmode`, its name elsewhere; raises `ValueError` for options unknown to asyncpg.

    SQLAlchemy passes them on as keyword arguments, and an unknown one would fail with a `TypeError` on connecting.
    """
    from asyncpg import connect

    query = {"ssl" if name == "sslmode" else name: value for name, value in url.query.items()}
    known = {*signature(connect).parameters, *_OF_DIALECT}
    if unknown := sorted(query.keys() - known):
        raise ValueError(f"asyncpg has no option {', '.join(unknown)}")
    return url.set(query=query)


_OF_DIALECT = ("prepared_statement_cache_size", "prepared_statement_name_func", "async_creator_fn")
"""The options that SQLAlchemy's dialect for asyncpg takes out itself."""
