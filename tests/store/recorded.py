"""Every statement that the writer sends to PostgreSQL, with the values of its first time."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event

from treadle_server.store.postgres.changes import Change
from treadle_server.store.postgres.connection import Beside, DirectConnection
from treadle_server.store.store import SqlStore

Recorded = dict[str, tuple[Any, ...]]
"""Values by statement."""


@contextmanager
def recording(store: SqlStore) -> Iterator[Recorded]:
    """Give what is sent during the block, as it is sent: on the driver itself, and through SQLAlchemy."""
    found: Recorded = {}
    fetch, beside, change, text = DirectConnection.fetch, Beside.fetch, DirectConnection.change, Change.text

    async def fetched(
        self: DirectConnection, statement: str, values: Sequence[Any] = (), *, is_independent: bool = False
    ) -> Any:
        found.setdefault(statement, tuple(values))
        return await fetch(self, statement, values, is_independent=is_independent)

    async def fetched_beside(self: Beside, statement: str, values: Sequence[Any] = (), *, is_independent: bool) -> Any:
        found.setdefault(statement, tuple(values))
        return await beside(self, statement, values, is_independent=is_independent)

    async def changed(self: DirectConnection, statement: str, values: Sequence[Any]) -> int:
        found.setdefault(statement, tuple(values))
        return await change(self, statement, values)

    def told(self: Change, *, is_alone: bool) -> str:
        statement = text(self, is_alone=is_alone)
        found.setdefault(statement, (*self.values, *("belief" for _ in range(3 * is_alone))))
        return statement

    def sent(_connection: Any, _cursor: Any, statement: str, values: Any, _context: Any, is_many: bool) -> None:
        found.setdefault(statement, tuple(values[0] if is_many else values))

    engine = store._writer._engine.sync_engine  # type: ignore[union-attr]
    event.listen(engine, "before_cursor_execute", sent)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectConnection, "fetch", fetched)
        patch.setattr(Beside, "fetch", fetched_beside)
        patch.setattr(DirectConnection, "change", changed)
        patch.setattr(Change, "text", told)
        yield found
    event.remove(engine, "before_cursor_execute", sent)
