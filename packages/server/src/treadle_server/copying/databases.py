"""What a copy asks of a database that it reads or writes, whichever of the two kinds it is."""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Protocol

from sqlalchemy import Table

from treadle_server.copying.contents import Row

SAME = "FROM and TO are the same database: copy to another one"
"""Why nothing is copied where one address leads to where the other one does."""


class SourceDatabase(Protocol):
    """A database that is open, and that no server uses meanwhile."""

    async def count(self, table: Table) -> int:
        """Return how many rows of a table are copied."""
        ...

    def read(self, table: Table) -> AsyncIterator[list[Row]]:
        """Give what is copied of a table, batch by batch."""
        ...

    async def counters(self) -> Mapping[str, int]:
        """Return, by their names, the greatest keys that were ever given."""
        ...


class DestinationDatabase(SourceDatabase, Protocol):
    """One that is written. What is written is there when its block has ended, all of it or nothing."""

    async def write(self, table: Table, rows: Sequence[Row]) -> None:
        """Write rows of a table, each its values in the order of the columns."""
        ...

    async def check(self) -> None:
        """Raise `ValidationFailed` when a row names another one that is not there."""
        ...

    async def count_on(self, counters: Mapping[str, int]) -> None:
        """Have new keys begin behind these."""
        ...
