"""The outbox: tasks submitted within your own SQLAlchemy transaction, and relayed to the server after it.

    async with engine.begin() as connection:
        await connection.execute(insert(orders).values(id=7))
        await outbox.submit(connection, confirm.bind(order=7))

The row is written to the table `treadle_outbox` in your own database: it is there once the transaction commits, and
never was if it rolls back. A relay (`Relay` beside an app, or `treadle outbox`) hands it to the server, where it
becomes a task exactly once: the row has its task's id, and the server accepts an id only once (G6). Needs the extra
`treadle[outbox]`, and no server package.
"""

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401 - only to say what is missing
except ImportError as error:
    raise ImportError("treadle.outbox needs SQLAlchemy: pip install 'treadle[outbox]'") from error

from treadle.outbox.refusals import Listed, drop, listed, retry
from treadle.outbox.relay import Relay, Swept
from treadle.outbox.rows import Row
from treadle.outbox.submitting import submit, submit_many, submit_many_sync, submit_sync
from treadle.outbox.table import create_table, ddl, table_in

__all__ = [
    "Listed",
    "Relay",
    "Row",
    "Swept",
    "create_table",
    "ddl",
    "drop",
    "listed",
    "retry",
    "submit",
    "submit_many",
    "submit_many_sync",
    "submit_sync",
    "table_in",
]
