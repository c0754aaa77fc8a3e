"""The schema's history, applied by alembic when a server starts, or by `treadle migrate`.

A migration on the main branch is never edited again, because databases exist that it has migrated. The next migration
corrects its mistakes (`tests/store/test_migrations_upgrades.py` keeps a digest of each).
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
"""PostgreSQL: the advisory lock under which one server migrates while the others wait."""


REVISIONS = sorted(path.name.partition("_")[0] for path in Path(__file__).parent.glob("versions/*_*.py"))
"""Every revision, oldest first, from the names of the files."""

HEAD = REVISIONS[-1]
"""The newest revision."""


def config_for(connection: Connection | None = None) -> "Config":
    """Return alembic's configuration, with the connection for `env.py`."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    return config


def upgrade(connection: Connection) -> None:
    """Migrate the database to the newest revision in the caller's transaction; several servers may do so at once.

    Raises `DatabaseIsNewer` when a newer version has migrated it to an unknown revision, and `ValidationFailed` when it
    belongs to another program, or lacks a part of its schema, as during a restore.

    When it is up to date, alembic is not even imported, which takes 0.25 s of a start of 2.
    """
    found = revisions(connection)
    if found != [HEAD]:
        found = _migrate(connection, found)
    if (said := explain_lacking(connection, *found)) is not None:
        raise ValidationFailed(f"{said}; nothing was changed")


def _migrate(connection: Connection, found: list[str]) -> list[str]:
    """Apply the missing migrations, and return the revision that the database was at."""
    if connection.dialect.name == "postgresql":
        # Another server may have migrated it meanwhile: read the revision again under the lock, so that its tables are
        # recognised.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": LOCK})
        found = revisions(connection)
    if (refused := refusal(connection, found)) is not None:
        raise refused
    from alembic import command

    if found == ["0001"] and "treadle_tasks" not in inspect(connection).get_view_names():
        # The first version of 0001 created no view, and 0002 begins by dropping it.
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
    """Raise `ValidationFailed` or `DatabaseIsNewer` unless the database, called `name`, is at the newest revision."""
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
    """Return why this version can't use a database with these revisions; None when it can, or when it is empty.

    Other programs may use the same names for their tables (`tasks`, `jobs`), and the same table for their revisions. An
    SQLite file belongs to Treadle as a whole: it is closed to other users, and restored as one. Only tables whose names
    begin with an underscore may be in it too, such as Litestream's.
    """
    there = set(inspect(connection).get_table_names())
    if not found:
        is_file = connection.dialect.name == "sqlite"
        others = {name for name in there if not name.startswith("_")} if is_file else there & set(metadata.tables)
        if others:
            return ValidationFailed(_STRANGE.format("no revision of Treadle"))
        return None if is_file else _out_of_reach(connection) or _ill_encoded(connection)
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
    "{}: a restore or a migration was interrupted, or somebody changed the tables; stop the servers and restore a"
    " backup (Treadle's own migrations are atomic)"
)


def explain_lacking(connection: Connection, revision: str = HEAD) -> str | None:
    """Return an error message if the database lacks a part of the schema; None if it is complete."""
    missing = lacking(connection)
    return None if missing is None else HALF_DONE.format(f"the database is marked as {revision}, but lacks {missing}")


def _out_of_reach(connection: Connection) -> ValidationFailed | None:
    """Return why no tables are made in a database that has Treadle's in a schema where they are not looked for."""
    found = connection.execute(_SCHEMAS).scalars().all()
    if not found:
        return None
    return ValidationFailed(
        f"Treadle's tables are in the schema {', '.join(found)}, which is not in the search_path"
        f" ({connection.execute(text('SHOW search_path')).scalar_one()}): put it there with ALTER ROLE … SET"
        " search_path, or, if they are another Treadle's, use a database of its own; nothing was changed"
    )


def _ill_encoded(connection: Connection) -> ValidationFailed | None:
    """Return why an empty PostgreSQL database can't be used: its encoding can't store every text."""
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding == ENCODING:
        return None
    return ValidationFailed(
        f"the database's encoding is {encoding}, which can't store every text: create one with CREATE DATABASE …"
        f" ENCODING '{ENCODING}' TEMPLATE template0"
    )


ENCODING = "UTF8"
"""PostgreSQL: the encoding that a new database must have. Databases from before this check may keep theirs."""


def warning_on_schemas(connection: Connection) -> str | None:
    """Return a warning about a PostgreSQL database with several Treadles, each in its own schema; None for at most one.

    The servers' locks, for leadership and for writing, and their notifications belong to the database, not to a schema:
    of two Treadles in one database only one has a leader, and scheduled tasks of the other never become pending.
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
"""What to do about that."""

_SCHEMAS = text(
    "SELECT nspname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace"
    " WHERE relname = 'lane_counts' AND relkind = 'r' ORDER BY nspname"
)


def newer_than_known(revision: str) -> str:
    """Return the message about a database that a newer server has migrated."""
    return (
        f"the database's schema is at revision {revision}, but this server knows only those up to {HEAD}: a newer"
        " one has migrated it; nothing was changed, install that version of treadle-server"
    )


def revisions(connection: Connection) -> list[str]:
    """Return the revisions that alembic has recorded in the database."""
    if not inspect(connection).has_table("alembic_version"):
        return []
    return [str(one) for one in connection.execute(text("SELECT version_num FROM alembic_version")).scalars()]
