"""The schema's history, applied by alembic when a server starts, or by `treadle migrate`."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

_LOCK = 7_420_001
"""PostgreSQL: the advisory lock under which one server migrates and the others wait."""


def config_for(connection: Connection | None = None) -> Config:
    """Return alembic's configuration, with the connection that `env.py` is to use."""
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def head() -> str:
    """Return the newest revision."""
    revision = ScriptDirectory.from_config(config_for()).get_current_head()
    assert revision is not None
    return revision


def upgrade(connection: Connection) -> None:
    """Bring the database to the newest revision, inside the caller's transaction; several servers may do so at once."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
    command.upgrade(config_for(connection), "head")
