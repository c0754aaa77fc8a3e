"""What the store says of a database that fails: in a line, with what to do."""

import pytest
from sqlalchemy import text

from treadle_server.errors import StoreUnavailable
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

FULL = text(
    "DO $$ BEGIN RAISE disk_full USING MESSAGE = 'could not extend file', HINT = 'Check free disk space.'; END $$"
)
"""What PostgreSQL says when it can write no more."""

TOLD = r"^the database's disk is full: make room on it \([^\n]*could not extend file\); nothing was changed, try again$"


@pytest.mark.postgres
async def test_a_full_disk_of_postgresql_is_told_as_one_of_sqlite_is(postgres_database: str) -> None:
    store = SqlStore(postgres_database)
    await store.open()

    with pytest.raises(StoreUnavailable, match=TOLD):
        async with store.write() as tx:
            await tx.connection.execute(FULL)
    with pytest.raises(StoreUnavailable, match=TOLD):
        async with store.read() as connection:
            await connection.execute(FULL)

    await store.close()
