"""What a database says when it fails, in a line and with what to do: what is raised of it is `StoreUnavailable`."""

import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from treadle_server.errors import StoreUnavailable
from treadle_server.store.translated import LostUpdate, Translated

RETRY_AFTER = 2.0
"""Seconds after which a client may try again when the database does not answer."""


_BROKEN_OFF = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization_failure and deadlock_detected."""


_OUT_OF_ORDER = frozenset({"08", "28", "3D", "53", "57", "58", "XX"})
"""Classes of PostgreSQL's states: connection lost, user refused, no such database, out of resources, operator's
intervention, error of the system, and of its own, such as damaged data."""

_REFUSED = frozenset({"25006", "3F000", "42501", "42704", "42P01", "55P03"})
"""PostgreSQL's read_only_sql_transaction, invalid_schema_name, insufficient_privilege, undefined_object,
undefined_table and lock_not_available: what its operator has set up, or another session does, and nothing was done."""

_NOT_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""SQLite's codes of a commit of which the end was not written, so that it was not done: a disk that is full, a lock."""

_BROKEN = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
"""SQLite's codes of errors that are none of the operation's."""


def _state(error: BaseException) -> str:
    """Return PostgreSQL's five characters; empty for another error."""
    return str(getattr(getattr(error, "orig", None) or error, "sqlstate", None) or "")


def _code(error: BaseException) -> int:
    """Return SQLite's primary error code; 0 for another error."""
    return int(getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0)) & 0xFF


def _explained(error: BaseException) -> StoreUnavailable | None:
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError):
        # OSError: nobody listens there, or its socket's file is gone.
        return _unavailable(error)
    if isinstance(error, sqlite3.DatabaseError):  # what the writer asks of the driver itself
        return _unavailable(error) if _code(error) in _BROKEN else None
    is_down = (
        isinstance(error, DBAPIError)
        and (
            error.connection_invalidated
            # It let nobody connect, for whatever reason: no host of several takes writes, or it is closed for repairs.
            or error.statement is None
            or _state(error)[:2] in _OUT_OF_ORDER
            # Of what only reads, which nothing does anew by itself.
            or _state(error) in _REFUSED | _BROKEN_OFF
            or _code(error) in _BROKEN
        )
    )
    return _unavailable(error) if is_down else None


FAILURES_EXPLAINED = Translated(_explained)
"""Raises `StoreUnavailable`, with advice, for what a database raises that does not answer."""


def _collision(error: BaseException) -> LostUpdate | None:
    if isinstance(error, DBAPIError) and _state(error) in _BROKEN_OFF:
        return LostUpdate(f"another server was faster ({error.orig})")
    return None


COLLISIONS_TOLD = Translated(_collision)
"""Raises `LostUpdate` for a transaction that PostgreSQL broke off in favour of another: it can be done anew."""


_FULL = "the database's disk is full: free space on it"

_DAMAGED = "the database is damaged: stop the server, check its disk, and restore the backup"

TAKES_NO_WRITES = "the database accepts no writes: it is a standby, or default_transaction_read_only is set"

_STRANGER = "the database rejects the user: check the user and password in its URL, and pg_hba.conf"

_PARAMETERS = "the database rejects a parameter: check those in its URL"

_ADVICE = {
    sqlite3.SQLITE_ERROR: "the database rejects the statement: `treadle doctor` says whether a table is missing",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_BUSY: "another process holds a lock on the database: end it, or wait for it",
    sqlite3.SQLITE_LOCKED: "another process holds a lock on the database: end it, or wait for it",
    sqlite3.SQLITE_IOERR: "the database's disk can't be read or written: check it, and whether it is full",
    sqlite3.SQLITE_CANTOPEN: "the database's file can't be opened: check its path, and the permissions there",
    sqlite3.SQLITE_NOTADB: "the database's file is not an SQLite file: check its path",
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_READONLY: "the database is not writable: check the permissions of its file and directory",
    "25006": TAKES_NO_WRITES,
    "28000": _STRANGER,
    "28P01": _STRANGER,
    "3D000": "the database does not exist: create it with CREATE DATABASE, or check its name in the URL",
    "3F000": "the database has no schema to create tables in: check its search_path, and the role's",
    "42501": "the role lacks permissions that are needed: make it the owner of the database or its schema",
    "22023": _PARAMETERS,
    "42704": _PARAMETERS,
    "42P01": "a table is missing: check the database's search_path, and whether it is being restored",
    "53100": _FULL,
    "53300": "the database accepts no more connections: raise max_connections or the role's limit, or put pgbouncer"
    " in front of it",
    "55000": "the database accepts no connections: check whether it is being restored or dropped (ALLOW_CONNECTIONS)",
    "55P02": _PARAMETERS,
    "55P03": "another session holds a lock that is needed: pg_locks and pg_stat_activity say which one; end it, or wait"
    " for it",
    "57014": "the database cancelled the statement: check the statement_timeout of the role and the database, and"
    " whether somebody cancels statements",
    "XX001": _DAMAGED,
    "XX002": "an index of the database is damaged: rebuild it with REINDEX DATABASE, and check its disk",
}
"""What to do, by SQLite's primary code or PostgreSQL's state."""


def in_brief(error: BaseException) -> str:
    """Return what the database said, without the statement and what was to be written: that is nobody's to read.

    PostgreSQL's details and hints are lines of their own behind it: a log has one for each event. What depends on a
    table is said there alone; others may show what is in a row.
    """
    if isinstance(error, PoolTimeout):
        return "timed out waiting for a free connection"
    cause = getattr(error, "orig", None) or error
    brief = str(cause).partition("\n")[0] or type(cause).__name__
    if "cannot switch to state" in brief:
        return "the connection was ended"  # asyncpg's words when the database has just ended an idle connection
    if _state(error) == "2BP01":
        brief += f": {getattr(cause.__cause__, 'detail', None)}"
    return brief


def advice_on(error: BaseException) -> str | None:
    """Return what is known of an error of SQLAlchemy or of a driver, and what to do; None: that it came."""
    return _ADVICE.get(_state(error) or _code(error))


def told_of(error: BaseException) -> str:
    """Return what to do about such an error, and what the database said."""
    return f"{advice_on(error) or 'the database does not answer'} ({in_brief(error)})"


_OF_TABLES = frozenset({"0A", "22", "23", "2B", "42", "P0"})
"""Classes of PostgreSQL's states: not supported, bad data, constraints, dependent objects, no such object, raised."""


def is_of_tables(error: DBAPIError) -> bool:
    """Return whether a statement failed by what the tables are and have, so that it will fail again."""
    if state := _state(error):
        return state[:2] in _OF_TABLES and state != "42501"
    return _code(error) in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}


def _unavailable(error: BaseException) -> StoreUnavailable:
    # A connection that broke after it was asked to commit: what is sent again with the same id is done once.
    is_refused = _state(error) in _REFUSED or _code(error) in _NOT_WRITTEN
    is_unknown = getattr(error, "statement", None) == "COMMIT" and not is_refused
    done = "whether it was done is not known" if is_unknown else "nothing was changed"
    return StoreUnavailable(f"{told_of(error)}; {done}, try again", retry_after=RETRY_AFTER)
