"""The writer's transaction: its connection, and what is known about the database in it."""

from dataclasses import dataclass, field
from typing import Literal, cast

from treadle_server.store.postgres.connection import DirectConnection
from treadle_server.store.sqlite.writer import InlineConnection, Statements
from treadle_server.store.translated import ClockWasSet, LostUpdate, Overtaken

__all__ = ["ClockWasSet", "Dialect", "LostUpdate", "Noticed", "Overtaken", "Tx"]

Dialect = Literal["sqlite", "postgresql"]


@dataclass(slots=True)
class Noticed:
    """What a transaction knows of the steps of the store's clock, from the servers' notes."""

    set_by: float | None = None
    """Sum of the steps in seconds; None when it has not been read yet."""
    is_sure: bool = False
    """Whether it is valid until the commit, because it was read under the limits' lock."""


@dataclass(frozen=True, slots=True)
class Tx:
    """An open transaction of the writer, and its SQL dialect."""

    connection: Statements
    dialect: Dialect
    version: int | None = None
    """A number that stays the same while only this server writes; None when others may write at any time."""
    noticed: Noticed = field(default_factory=Noticed)

    @property
    def is_exclusive(self) -> bool:
        """Return whether only this server can write while the transaction is open."""
        return self.version is not None

    def has_begun(self) -> bool:
        """Return whether a statement has been sent to the database yet."""
        return self.dialect == "sqlite" or self.direct.opened is not None

    def beside(self) -> "Tx | None":
        """Return what reads queues on another connection while this one commits; None where that is impossible."""
        reading = None if self.dialect == "sqlite" else self.direct.beside
        return None if reading is None else Tx(cast("Statements", reading), self.dialect, self.version)

    def fail_if_clock_set(self) -> None:
        """Make the commit raise `LostUpdate` if the clock is set from now on, where other servers may react to that."""
        if self.dialect == "postgresql":
            self.direct.fail_if_clock_set()

    @property
    def inline(self) -> InlineConnection:
        """Return SQLite's connection."""
        return cast("InlineConnection", self.connection)

    @property
    def direct(self) -> DirectConnection:
        """Return PostgreSQL's connection."""
        return cast("DirectConnection", self.connection)
