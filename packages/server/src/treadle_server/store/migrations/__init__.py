"""The schema's history, applied by alembic when a server starts, or by `treadle migrate`.

A migration that is on the main branch is never edited again, whatever is wrong with it: databases exist that it made.
What it made wrong the next one mends (`tests/store/test_migrations_upgrades.py` keeps a digest of each).
"""

from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import DBAPIError

from treadle_server.errors import DatabaseIsNewer, ValidationFailed
from treadle_server.store.failures import in_brief, is_of_tables
from treadle_server.store.migrations.lacking import lacking
from treadle_server.store.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

LOCK = 7_420_001
"""PostgreSQL: the advisory lock under which one server migrates and the others wait."""


REVISIONS = sorted(path.name.partition("_")[0] for path in Path(__file__).parent.glob("versions/*_*.py"))
"""Every revision, oldest first: their files are named after them."""

HEAD = REVISIONS[-1]
"""The newest revision."""


def config_for(connection: Connection | None = None) -> "Config":
    """Return alembic's configuration, with the connection that `env.py` is to use."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Bring the database to the newest revision, inside the caller's transaction; several servers may do so at once.

    Raises `DatabaseIsNewer` when a newer version has migrated it to what is not known here, and `ValidationFailed` when
    it is another program's, or lacks a part, as one that is being restored does.

    Where it is there already, alembic is not even imported: that takes 0.25 s of a start of 2.
    """
    found = revisions(connection)
    if found != [HEAD]:
        found = _migrate(connection, found)
    if (said := said_of_lacking(connection, *found)) is not None:
        raise ValidationFailed(f"{said}; nothing was changed")


def _migrate(connection: Connection, found: list[str]) -> list[str]:
    """Apply what is missing, and return the revision from which that was."""
    if connection.dialect.name == "postgresql":
        # Tables that another server has made meanwhile are no stranger's: what is noted is read again behind it.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        found = revisions(connection)
    if (refused := refusal(connection, found)) is not None:
        raise refused
    from alembic import command

    if found == ["0001"] and "treadle_tasks" not in inspect(connection).get_view_names():
        # The first form of 0001 made no view, and 0002 begins with dropping it.
        connection.execute(text("CREATE VIEW treadle_tasks AS SELECT 1 AS unused"))
    try:
        command.upgrade(config_for(connection), "head")
    except DBAPIError as error:
        if not is_of_tables(error):
            raise
        raise ValidationFailed(_NOT_MIGRATED.format(", ".join(found), in_brief(error))) from error
    return found


_NOT_MIGRATED = (
    f"the database can't be migrated from revision {{}} to {HEAD} ({{}}); nothing was changed; drop your own views and"
    " triggers on Treadle's tables, and create them again afterwards; if there are none, somebody changed the tables,"
    " or a restore was interrupted: restore the backup"
)


def check_current(connection: Connection, name: str) -> None:
    """Raise `ValidationFailed` unless the database, called `name`, is at the newest revision; or `DatabaseIsNewer`."""
    found = revisions(connection)
    if not found:
        raise ValidationFailed(f"{name} is not a Treadle database: it has no table alembic_version")
    if (refused := refusal(connection, found)) is not None:
        raise refused
    if found != [HEAD]:
        raise ValidationFailed(
            f"{name} is of an older version (revision {', '.join(found)}, not {HEAD}): migrate it first with"
            " `treadle migrate --database-url URL`"
        )


def refusal(connection: Connection, found: list[str]) -> DatabaseIsNewer | ValidationFailed | None:
    """Return why a database with these revisions can't be Treadle's of this version; None: it can, or is empty.

    Programs give their tables the same names (`tasks`, `jobs`), and keep their own revisions in the same table. A file
    of SQLite's is Treadle's as a whole, closed to other users and put in place as one; a table whose name begins with
    an underscore may be in it, as Litestream keeps them.
    """
    there = set(inspect(connection).get_table_names())
    if not found:
        is_file = connection.dialect.name == "sqlite"
        others = {name for name in there if not name.startswith("_")} if is_file else there & set(metadata.tables)
        if others:
            return ValidationFailed(_STRANGE.format("no revision of Treadle"))
        return None if is_file else _ill_encoded(connection)
    unknown = ", ".join(revision for revision in found if revision not in REVISIONS)
    if not there >= _FIRST:
        return ValidationFailed(_STRANGE.format(f"the revision {', '.join(found)} of another program"))
    if unknown:
        return DatabaseIsNewer(newer_than_known(unknown))
    if len(found) > 1:
        return ValidationFailed(HALF_DONE.format(f"{' and '.join(sorted(found))} are noted, but only one should be"))
    return None


_FIRST = frozenset({"jobs", "lanes", "tasks", "runs", "workers"})
"""Tables that every revision has."""

_STRANGE = (
    "the database has tables, but {}: give Treadle a database of its own, or restore the backup if it was Treadle's;"
    " nothing was changed"
)


HALF_DONE = (
    "{}: a migration was interrupted, or somebody changed the tables; stop the servers and restore the backup from"
    " before it; Treadle's own migrations are atomic"
)


def said_of_lacking(connection: Connection, revision: str = HEAD) -> str | None:
    """Return what is wrong with a database that was noted to be at a revision, and lacks a part; None: nothing."""
    missing = lacking(connection)
    return None if missing is None else HALF_DONE.format(f"the database is marked as {revision}, but lacks {missing}")


def _ill_encoded(connection: Connection) -> ValidationFailed | None:
    """Return why an empty database of PostgreSQL's can't be Treadle's: it would refuse what people write."""
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding == ENCODING:
        return None
    return ValidationFailed(
        f"the database's encoding is {encoding}, which can't store every text: create one with CREATE DATABASE …"
        f" ENCODING '{ENCODING}' TEMPLATE template0"
    )


ENCODING = "UTF8"
"""PostgreSQL: what a database's text is kept in. One of before this was looked at goes on with what it can keep."""


def said_of_schemas(connection: Connection) -> str | None:
    """Return what is wrong with a database of PostgreSQL's that keeps several Treadles apart by schemas; None: nothing.

    The locks that servers take, for the lead and to write, and what they tell one another are the database's, not a
    schema's: of two Treadles in one only one has a leader, and tasks that wait for a time never come in the other.
    """
    if connection.dialect.name != "postgresql":
        return None
    found = connection.execute(_SCHEMAS).scalars().all()
    if len(found) < 2:
        return None
    return (
        f"there are Treadle tables in the schemas {', '.join(found)} of one database, whose servers share their"
        " locks: tasks are promoted, swept and scheduled in only one of them"
    )


OWN_DATABASE = "give each its own database (`pg_dump -n SCHEMA`), and drop the schemas that are not in use"
"""What to do about it."""

_SCHEMAS = text(
    "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE relname = 'lane_counts' AND relkind = 'r' ORDER BY nspname"
)


def newer_than_known(revision: str) -> str:
    """Return what to say of a database that a newer server has migrated."""
    return (
        f"the database's schema is at revision {revision}, but this server knows only those up to {HEAD}: a newer"
        " one has migrated it; nothing was changed, install that version of treadle-server"
    )


def revisions(connection: Connection) -> list[str]:
    """Return what alembic has noted in the database."""
    if not inspect(connection).has_table("alembic_version"):
        return []
    return [str(one) for one in connection.execute(text("SELECT version_num FROM alembic_version")).scalars()]
