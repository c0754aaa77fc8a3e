"""Turn the databases' errors into `StoreUnavailable`, with one line on what happened and what to do."""

import re
import sqlite3

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from treadle_server.errors import StoreUnavailable
from treadle_server.store.tables import metadata
from treadle_server.store.translated import LostUpdate, Translated

RETRY_AFTER = 2.0
"""Seconds after which a client should retry when the database does not answer."""


_BROKEN_OFF = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization_failure and deadlock_detected."""


_OUT_OF_ORDER = frozenset({"08", "28", "3D", "53", "57", "58", "XX"})
"""Classes of PostgreSQL's SQLSTATEs: connection exception, invalid authorization, invalid catalog name, insufficient
resources, operator intervention, system error, and internal error, such as damaged data."""

_REFUSED = frozenset({"0A000", "25006", "3F000", "42501", "42703", "42704", "42P01", "42P10", "55000", "55P03"})
"""PostgreSQL's feature_not_supported (of a rule), read_only_sql_transaction, invalid_schema_name,
insufficient_privilege, undefined_column, undefined_object, undefined_table, invalid_column_reference (a missing key),
object_not_in_prerequisite_state and lock_not_available: caused by its configuration or another session; nothing was
changed."""

_NOT_WRITTEN = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY})
"""SQLite's codes of a commit that certainly did not happen: the disk was full, or the database locked."""

_BROKEN = frozenset({sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT})
"""SQLite's codes of errors that don't come from the operation itself."""


def _state(error: BaseException) -> str:
    """Return PostgreSQL's SQLSTATE; empty for any other error."""
    return str(getattr(getattr(error, "orig", None) or error, "sqlstate", None) or "")


def _of_driver(error: BaseException) -> BaseException:
    """Return the error as the driver raised it."""
    cause = getattr(error, "orig", None) or error
    return cause.__cause__ or cause


def _is_to_prepare_anew(error: BaseException) -> bool:
    """Return whether only what the driver had prepared failed: somebody altered a table, and the next try succeeds."""
    return type(_of_driver(error)).__name__ == "InvalidCachedStatementError"


def _code(error: BaseException) -> int:
    """Return SQLite's primary error code; 0 for another error."""
    return int(getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", 0)) & 0xFF


def _explained(error: BaseException) -> StoreUnavailable | None:
    if isinstance(error, OperationalError | InterfaceError | PoolTimeout | OSError):
        # OSError: nothing listens at the address, or the Unix socket's file is gone.
        return _unavailable(error)
    if isinstance(error, sqlite3.DatabaseError):  # from the writer's calls to the driver itself
        return _unavailable(error) if _code(error) in _BROKEN else None
    is_down = (
        isinstance(error, DBAPIError)
        and (
            error.connection_invalidated
            # Connecting failed, for whatever reason: none of several hosts accepts writes, or it is closed for
            # maintenance.
            or error.statement is None
            or _state(error)[:2] in _OUT_OF_ORDER
            # In a read, which nothing retries.
            or _state(error) in _REFUSED | _BROKEN_OFF
            or _code(error) in _BROKEN
            or _addition(error) is not None
            or _is_to_prepare_anew(error)
        )
    )
    return _unavailable(error) if is_down else None


FAILURES_EXPLAINED = Translated(_explained)
"""Raises `StoreUnavailable`, with advice, for errors of a database that is not available."""


def _collision(error: BaseException) -> LostUpdate | None:
    if isinstance(error, DBAPIError) and _state(error) in _BROKEN_OFF and function_of(error) is None:
        return LostUpdate(f"another server was faster ({error.orig})")
    return LostUpdate(_ALTERED) if _is_to_prepare_anew(error) else None


COLLISIONS_EXPLAINED = Translated(_collision)
"""Raises `LostUpdate` for a transaction that PostgreSQL aborted in favour of another, and for one whose statements are
to be prepared anew, so that it can be retried."""


_OF_TABLES = frozenset({"0A", "22", "23", "2B", "38", "42", "P0"})
"""Classes of SQLSTATEs: unsupported, invalid data, constraints, dependent objects, external routines, no such object,
RAISE."""

_OWN = frozenset(
    str(name)
    for table in metadata.tables.values()
    for name in (*(one.name for one in table.constraints), *(one.name for one in table.indexes))
) | {"a_newer_treadle_server_has_migrated_this_database"}
"""The names of Treadle's own constraints and unique indexes."""


def is_own(name: str) -> bool:
    """Return whether a constraint or index is Treadle's own."""
    # The names of the first migrations' checks have their prefix twice.
    return re.sub(r"^(ck_\w+_)(?=\1)", "", name) in _OWN


def function_of(error: BaseException) -> str | None:
    """Return the name of the function in which a statement failed, which is a trigger's: Treadle has none.

    None for what can happen in any function, such as a timeout, unless the function raised it itself.
    """
    context = getattr(_of_driver(error), "context", None) or ""
    found = re.search(r"PL/\w+ function (inline_code_block|[^(\n]+)", context)
    if found is None or found[1] == "inline_code_block":
        return None
    return found[1] if _state(error)[:2] in _OF_TABLES or context.partition("\n")[0].endswith("at RAISE") else None


def _addition(error: BaseException) -> str | None:
    """Return what somebody has added to the tables that a statement failed for; None for any other error."""
    if (function := function_of(error)) is not None:
        return f"a trigger, whose function is {function},"
    if _state(error)[:2] != "23":
        return None
    cause = _of_driver(error)
    table, column, constraint = (getattr(cause, f"{part}_name", None) for part in ("table", "column", "constraint"))
    if constraint is not None and not is_own(constraint):
        return f"the constraint {constraint} of the table {table}"
    own = None if table is None else metadata.tables.get(table)
    if column is not None and own is not None and column not in own.c:
        return f"the column {column} of the table {table}"
    return None


_FULL = "the database's disk is full: free space on it"

TAKES_NO_WRITES = "the database accepts no writes: it is a standby, or default_transaction_read_only is set"

_STRANGER = "the database rejects the user: check the user and password in its URL, and pg_hba.conf"

_PARAMETERS = "the database rejects a parameter: check those in its URL"

_NOT_AS_IT_IS = (
    "a table, index or sequence can't be used as it is: undo what was done to it, such as REPLICA IDENTITY NOTHING of a"
    " published table"
)

_ALTERED = "a table was altered while the server runs: it prepares its statements anew"

_ADVICE = {
    sqlite3.SQLITE_ERROR: "the database rejects the statement: `treadle doctor` says whether a table is missing",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_BUSY: "another process holds a lock on the database: end it, or wait for it",
    sqlite3.SQLITE_LOCKED: "another process holds a lock on the database: end it, or wait for it",
    sqlite3.SQLITE_IOERR: "the database's disk can't be read or written: check it, and whether it is full",
    sqlite3.SQLITE_CANTOPEN: "the database's file can't be opened: check its path, and the permissions there",
    sqlite3.SQLITE_NOTADB: "the database's file is not an SQLite file: check its path",
    # SQLite also says this when the system can't read from the disk (EIO), and then the file may be sound.
    sqlite3.SQLITE_CORRUPT: "the database is damaged, or its disk can't be read: stop the server, check the disk, and"
    " restore the backup if PRAGMA integrity_check finds damage",
    sqlite3.SQLITE_READONLY: "the database is not writable: check the permissions of its file and directory, and"
    " whether its disk is mounted read-only",
    "0A000": "a table is not Treadle's own any more: undo what was done to it, such as a rule",
    "25006": TAKES_NO_WRITES,
    "28000": _STRANGER,
    "28P01": _STRANGER,
    "3D000": "the database does not exist: create it with CREATE DATABASE, or check its name in the URL",
    "3F000": "the database has no schema to create tables in: check its search_path, and the role's",
    "42501": "the role lacks permissions that are needed: make it the owner of the database or its schema",
    "22023": _PARAMETERS,
    "42703": "a column is missing: check the database's search_path, and whether it is being restored; `treadle doctor`"
    " says what is missing",
    "42704": _PARAMETERS,
    "42P01": "a table is missing: check the database's search_path, and whether it is being restored",
    "42P10": "a table lacks a key: check whether the database is being restored; `treadle doctor` says what is missing",
    "53100": _FULL,
    "53200": "the database is out of memory: raise max_locks_per_transaction if it is the shared memory, or else give"
    " it more",
    "53300": "the database accepts no more connections: raise max_connections or the role's limit, or put pgbouncer"
    " in front of it",
    "54000": "PostgreSQL's queue of notices is full: end the session that listens and has a transaction open for long"
    " (pg_stat_activity)",
    "55000": "the database accepts no connections: check whether it is being restored or dropped (ALLOW_CONNECTIONS)",
    "55P02": _PARAMETERS,
    "55P03": "another session holds a lock that is needed: pg_locks and pg_stat_activity say which one; end it, or wait"
    " for it",
    "57014": "the database cancelled the statement: check the statement_timeout of the role and the database, and"
    " whether somebody cancels statements",
    "XX001": "the database is damaged: stop the server, check its disk, and restore the backup",
    "XX002": "an index of the database is damaged: rebuild it with REINDEX DATABASE, and check its disk",
}
"""What is wrong and what to do, by SQLite's primary error code or PostgreSQL's SQLSTATE."""


def in_brief(error: BaseException) -> str:
    """Return the database's message, without the statement and its values, which are confidential.

    Only its first line: PostgreSQL's details and hints follow on others, and a log has one line for each event. The
    detail is added only for objects that depend on a table; others may show a row's values.
    """
    if isinstance(error, PoolTimeout):
        return "timed out waiting for a free connection"
    cause = getattr(error, "orig", None) or error
    brief = str(cause).partition("\n")[0] or type(cause).__name__
    if "cannot switch to state" in brief:
        return "the connection was ended"  # asyncpg's words when the database has just ended an idle connection
    if _state(error) == "2BP01":
        brief += f": {getattr(cause.__cause__, 'detail', None)}"
    # What a trigger says may quote the row.
    return brief if function_of(error) is None else "PostgreSQL's log has what it says"


_URL = "the database's URL can't be used: correct its parameters"


def advice_on(error: BaseException) -> str | None:
    """Return what an error of SQLAlchemy or of a driver means and what to do; None when that is not known."""
    cause = getattr(error, "orig", None) or error
    # By its name: without PostgreSQL, asyncpg may be missing.
    if "ClientConfigurationError" in {type(cause).__name__, type(cause.__cause__).__name__}:
        return _URL
    if (addition := _addition(error)) is not None:
        return f"{addition} refuses what Treadle writes: drop it, or have it accept that"
    if _is_to_prepare_anew(error):
        return _ALTERED
    if _state(error) == "55000" and getattr(error, "statement", None) is not None:
        return _NOT_AS_IT_IS
    return _ADVICE.get(_state(error) or _code(error))


def described(error: BaseException) -> str:
    """Return the advice on such an error, and the database's message."""
    return f"{advice_on(error) or 'the database does not answer'} ({in_brief(error)})"


def is_of_tables(error: DBAPIError) -> bool:
    """Return whether a statement failed because of the tables' definition or content, so that it will fail again."""
    if state := _state(error):
        return state[:2] in _OF_TABLES and state != "42501"
    return _code(error) in {sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CONSTRAINT, sqlite3.SQLITE_MISMATCH}


def _unavailable(error: BaseException) -> StoreUnavailable:
    # If the connection broke during COMMIT, the outcome is unknown; a request that is sent again with the same id is
    # done once.
    is_refused = _state(error) in _REFUSED or _state(error)[:2] in _OF_TABLES or _code(error) in _NOT_WRITTEN
    is_refused |= function_of(error) is not None
    is_unknown = getattr(error, "statement", None) == "COMMIT" and not is_refused
    done = "whether it was done is unknown" if is_unknown else "nothing was changed"
    return StoreUnavailable(f"{described(error)}; {done}, try again", retry_after=RETRY_AFTER)
