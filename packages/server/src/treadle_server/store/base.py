"""The writer's transaction: its connection, and what is known of it."""

from dataclasses import dataclass, field
from typing import Literal, cast

from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import InlineConnection, Statements
from treadle_server.store.translated import ClockWasSet, LostUpdate, Overtaken

__all__ = ["ClockWasSet", "Dialect", "LostUpdate", "Noticed", "Overtaken", "Tx"]

Dialect = Literal["sqlite", "postgresql"]


@dataclass(slots=True)
class Noticed:
    """What a transaction knows of how the store's clock was set, by what servers have noted of it."""

    set_by: float | None = None
    """Seconds in all; None: it was not asked yet."""
    is_sure: bool = False
    """Whether it stands until the commit: it was read under the lock of the limits."""


@dataclass(frozen=True, slots=True)
class Tx:
    """An open transaction of the writer, and which SQL it speaks."""

    connection: Statements
    dialect: Dialect
    version: int | None = None
    """A number that stands as long as nobody but this server has written; None when others may at any time."""
    noticed: Noticed = field(default_factory=Noticed)

    @property
    def is_exclusive(self) -> bool:
        """Return whether nobody but this server writes while it is open."""
        return self.version is not None

    def has_begun(self) -> bool:
        """Return whether anything was asked of the database yet."""
        return self.dialect == "sqlite" or self.direct.opened is not None

    def beside(self) -> "Tx | None":
        """Return what reads queues on a connection of its own while this one is committed; None: that can't be done."""
        reading = None if self.dialect == "sqlite" else self.direct.beside
        return None if reading is None else Tx(cast("Statements", reading), self.dialect, self.version)

    def heed_clock(self) -> None:
        """Have the commit raise `LostUpdate` if the clock is set from now on, where other servers deal with that."""
        if self.dialect == "postgresql":
            self.direct.heed_clock()

    @property
    def inline(self) -> InlineConnection:
        """Return SQLite's connection."""
        return cast("InlineConnection", self.connection)

    @property
    def direct(self) -> DirectConnection:
        """Return PostgreSQL's connection."""
        return cast("DirectConnection", self.connection)
