"""The schema's history, applied by alembic when a server starts, or by `treadle migrate`."""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

if TYPE_CHECKING:
    from alembic.config import Config

_LOCK = 7_420_001
"""PostgreSQL: the advisory lock under which one server migrates and the others wait."""


HEAD = max(path.name for path in Path(__file__).parent.glob("versions/*_*.py")).partition("_")[0]
"""The newest revision: their files are named after them."""


def config_for(connection: Connection | None = None) -> "Config":
    """Return alembic's configuration, with the connection that `env.py` is to use."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Bring the database to the newest revision, inside the caller's transaction; several servers may do so at once.

    Where it is there already, alembic is not even imported: that takes 0.25 s of a start of 2.
    """
    if _revisions(connection) == [HEAD]:
        return
    from alembic import command

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    command.upgrade(config_for(connection), "head")


def _revisions(connection: Connection) -> list[str]:
    """Return what alembic has noted in the database."""
    if not inspect(connection).has_table("alembic_version"):
        return []
    return list(connection.execute(text("SELECT version_num FROM alembic_version")).scalars())
