"""The writer's transaction: its connection, and what is known of it; and that another server was faster."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from treadle_server.store.sqlite.writer import Statements

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
    has_begun: Callable[[], bool] = lambda: True
    """Whether anything was asked of the database yet."""
    beside: Callable[[], "Tx | None"] = lambda: None
    """What reads queues on a connection of its own while this one is committed; None: that can't be done."""
    heed_clock: Callable[[], None] = lambda: None
    """Has the commit raise `LostUpdate` if the clock is set from now on, where other servers deal with that."""
    noticed: Noticed = field(default_factory=Noticed)

    @property
    def is_exclusive(self) -> bool:
        """Return whether nobody but this server writes while it is open."""
        return self.version is not None


class LostUpdate(RuntimeError):
    """A guarded update met a row that is not as it was read: another writer was faster; the batch is done anew."""


class Overtaken(LostUpdate):
    """Another server has put in tasks, or is about to, that count against the same limit."""


class ClockWasSet(LostUpdate):
    """Another server has noted a step of the clock that the transaction's time knows nothing of."""
