"""What the engine needs of a store: one transaction at a time for the writer, reads beside it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from sqlalchemy.ext.asyncio import AsyncConnection

from treadle_server.clock import Clock
from treadle_server.store.sqlite.writer import Statements

Dialect = Literal["sqlite", "postgresql"]


@dataclass(frozen=True, slots=True)
class Tx:
    """An open transaction of the writer, and which SQL it speaks."""

    connection: Statements
    dialect: Dialect
    version: int | None = None
    """A number that stands as long as nobody but this server has written; None when others may at any time."""
    has_begun: Callable[[], bool] = lambda: True
    """Whether anything was asked of the database yet."""
    beside: Callable[[], "Tx | None"] = lambda: None
    """What reads queues on a connection of its own while this one is committed; None: that can't be done."""

    @property
    def is_exclusive(self) -> bool:
        """Return whether nobody but this server writes while it is open."""
        return self.version is not None


class LostUpdate(RuntimeError):
    """A guarded update met a row that is not as it was read: another writer was faster; the batch is done anew."""


class Store(Protocol):
    """Keeps everything; `SqlStore` is the one implementation, on two databases."""

    dialect: Dialect
    is_shared: bool
    """Whether other servers may use the same database."""
    clock: Clock
    """The store's clock: one for all servers on one database. In a transaction it shows what the database shows."""

    async def open(self) -> None:
        """Connect and bring the schema up to date. Raises `StoreUnavailable` or `DatabaseIsNewer`."""
        ...

    async def close(self) -> None:
        """Close every connection."""
        ...

    async def seek_exclusive(self) -> None:
        """Become the only one that writes, if that can be. Raises `StoreUnavailable`."""
        ...

    async def read_clock(self) -> None:
        """Have `clock` show what the store's clock shows now. Raises `StoreUnavailable`."""
        ...

    def write(self, *, after: Callable[[], Awaitable[None]] | None = None) -> AbstractAsyncContextManager[Tx]:
        """Open a transaction that commits durably at the end of the block, or rolls back when it raises.

        What `after` gives is awaited before anything is asked of the database. Raises `StoreUnavailable` when that does
        not answer, and `LostUpdate` when another server's transaction was faster.
        """
        ...

    def read(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """Lend a connection that only reads, and sees what is committed.

        Raises `StoreUnavailable` when the database does not answer.
        """
        ...

    def read_in_place(self) -> AbstractAsyncContextManager[Statements]:
        """Lend a connection as `read` does, for few rows that are wanted at once: SQLite's reads on the event loop.

        Nothing else may be waited for while it is lent. Raises `StoreUnavailable`.
        """
        ...


__all__ = ["AsyncIterator", "Dialect", "LostUpdate", "Store", "Tx"]
