"""Open SQLite and PostgreSQL so that commits are durable and readers never wait."""

import os
import socket
import sqlite3
from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL
from sqlalchemy.exc import DatabaseError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool, StaticPool

from treadle_server.errors import ValidationFailed
from treadle_server.private import check_writable, make_directory, make_file
from treadle_server.store.migrations import refusal, revisions
from treadle_server.store.sqlite.places import SIDES, check_log, file_of
from treadle_server.store.sqlite.reader import ReadingConnection
from treadle_server.store.sqlite.writer import MOST_TEXTS
from treadle_server.store.translated import hide_row, named
from treadle_server.store.urls import dsn_of

READERS = 4
"""Connections that only read; on SQLite each has its own thread."""


def _as_text(value: Any) -> Any:
    """Pass JSON through as text: it was validated on the way in and is never parsed again."""
    return value


# An error shows its statement but not the values: payloads don't belong in a log.
_ALWAYS: dict[str, Any] = {"hide_parameters": True, "json_serializer": _as_text, "json_deserializer": _as_text}


def sqlite_writer(url: URL) -> Engine:
    """Return the engine with SQLite's only writing connection, for `InlineWriter`.

    Creates the directory now, and a new file when it connects, both accessible to this user only. Raises
    `ValidationFailed` when they can't be used, when the file belongs to another program, and when there is only its
    log; nothing about such a file is changed, neither its permissions nor its journal mode.
    """
    path, setting = file_of(url), "--database-url or TREADLE_DATABASE_URL"
    make_directory(path.parent, name="the database's directory", setting=setting)
    # Check before opening: next to a read-only file SQLite leaves a read-only log, and with that the next server would
    # fail even after the file's permissions were fixed.
    check_writable(path, name="the database", setting=setting, sides=SIDES)
    check_log(path)
    _check_own(url, setting)
    make = partial(make_file, path, name="the database", setting=setting, sides=SIDES)
    if os.path.lexists(path):
        make()
    engine = create_engine(
        url.set(drivername="sqlite"),
        # The writer begins and ends transactions, not SQLAlchemy.
        isolation_level="AUTOCOMMIT",
        **_ALWAYS,
        poolclass=StaticPool,
        connect_args={"timeout": 0, "check_same_thread": False, "cached_statements": MOST_TEXTS},
    )

    # A new file is created only on connecting, which happens under the lock, so a server that is refused leaves no
    # empty file.
    event.listen(engine, "do_connect", lambda *_: make())
    event.listen(engine, "connect", partial(_configure, _WRITER))
    return engine


def _check_own(url: URL, setting: str) -> None:
    path = file_of(url)
    # Unlike Path.is_file, this doesn't raise for too long a name, which is reported on creating the file.
    if not os.path.isfile(path) or not path.stat().st_size:  # noqa: PTH113
        return
    engine = sqlite_reader(url)
    try:
        with engine.connect() as connection:
            refused = refusal(connection, revisions(connection))
    except DatabaseError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
            return  # any other problem is reported when the writer connects
        refused = ValidationFailed(f"{path} is not an SQLite file, and was not changed: choose another with {setting}")
    finally:
        engine.dispose()
    if isinstance(refused, ValidationFailed):
        raise refused


def sqlite_reader(url: URL) -> Engine:
    """Return the engine of a read connection that runs on the caller's thread.

    Raises `ValidationFailed` for a database that opening would rob of its log.
    """
    check_log(file_of(url))
    engine = create_engine(
        url.set(drivername="sqlite"),
        **_ALWAYS,
        poolclass=StaticPool,
        connect_args={"timeout": 30},
    )
    # No mmap: what is read only once need not stay in memory.
    event.listen(engine, "connect", partial(_configure, (*_COMMON, "PRAGMA query_only=ON")))
    event.listen(engine, "begin", _begin_snapshot)
    return engine


def sqlite_readers(url: URL) -> AsyncEngine:
    """Return the engine of SQLite's read connections, each with its own thread."""
    engine = create_async_engine(
        url,
        **_ALWAYS,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=READERS,
        max_overflow=0,
        connect_args={"timeout": 30, "cached_statements": 256, "async_creator_fn": ReadingConnection.made},
    )
    event.listen(engine.sync_engine, "connect", partial(_configure, _READER))
    event.listen(engine.sync_engine, "begin", _begin_soon)
    return engine


def _begin_snapshot(connection: Connection) -> None:
    """Begin a transaction, which the driver would not do by itself, so that a reader's statements see one snapshot."""
    connection.exec_driver_sql("BEGIN")


def _begin_soon(connection: Connection) -> None:
    """Begin the transaction together with the first statement, which saves a round trip to the thread."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, ReadingConnection)
    driver.is_to_begin = True


_COMMON = ("PRAGMA busy_timeout=30000", "PRAGMA foreign_keys=ON", "PRAGMA temp_store=MEMORY")
_READER = (*_COMMON, "PRAGMA query_only=ON", "PRAGMA cache_size=-16000", "PRAGMA mmap_size=268435456")
# FULL: the log is synced before a commit returns (G1). 4,000 pages: a checkpoint every 16 MiB; a log that grew because
# a long read held checkpoints up is truncated to 64 MiB.
_WRITER = (
    *_COMMON,
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-32000",
    # The writer retries by itself, without blocking the event loop.
    "PRAGMA busy_timeout=0",
)


def _configure(pragmas: tuple[str, ...], connection: Any, _record: Any) -> None:
    # Autocommit in the driver, so that the only BEGINs are ours.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(pragma)
    cursor.close()


_NAME = "application_name"
_LOCKED = {"lock_timeout": "15s"}
"""A wait for a locked table fails after this time with an error that says so, as on SQLite: without it a transaction
that somebody left open blocked every batch for ever, and nothing was reported. A server that hangs in a transaction is
cut off sooner, see `_HANGING`."""

_POSTGRES = {"jit": "off", "enable_seqscan": "off", _NAME: "treadle", **_LOCKED}
"""The JIT costs more than it saves for statements this short. After a burst the planner has no statistics of the table
yet, and would scan all of it for a page that an index has in order."""

_HANGING = {"idle_in_transaction_session_timeout": "10s"}
"""A server that hangs in a transaction keeps others waiting for this time at most. The role may have a shorter one,
which would end what is only slow."""

_READING = {**_POSTGRES, **_HANGING, "enable_bitmapscan": "off"}
"""A list stops at the end of its page, and so does an index scan in its order; a bitmap scan reads all matches and
sorts them. A planner without statistics estimates a million tasks as some ten thousand, fewer than a list may look
through."""


WRITING = {
    **_HANGING,
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    **_LOCKED,
}
"""The writer's plans must not depend on statistics, which a table lacks after a burst: they start from the given values
and follow an index. Without these settings a claim of 120 tasks took 7.3 ms in a fresh table, with them 4.0."""

KEPT_OPEN = {"idle_session_timeout": "0"}
"""Overrides the role's setting: connections stay idle until they are needed, and one that PostgreSQL closes meanwhile
fails the statement that has just been sent on it. The connection that holds the leader's lock has its own limit
(`services/leader.py`)."""

_POOLED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}
"""An unnamed statement lives only until the next one, within the transaction, so nothing of it stays in the session."""


def postgres_engine(
    url: URL, *, size: int, is_pooled: bool = False, settings: Mapping[str, str] = _POSTGRES
) -> AsyncEngine:
    """Return an engine of up to `size` connections whose sessions have the `settings`.

    `is_pooled` means that the URL leads to a transaction pooler such as pgbouncer: a session keeps neither settings nor
    prepared statements, so each transaction begins by setting them.
    """
    engine = create_async_engine(
        # The driver reads the parameters itself, from the whole URL: among the arguments they would be taken for ours.
        url.set(query={}),
        **_ALWAYS,
        pool_size=size,
        max_overflow=0,
        pool_pre_ping=False,
        connect_args={
            "timeout": 10,
            "async_creator_fn": partial(_connected, dsn_of(url)),
            **(_POOLED if is_pooled else {"server_settings": {**settings, **KEPT_OPEN}}),
        },
    )
    event.listen(engine.sync_engine, "connect", _keep_alive)
    event.listen(engine.sync_engine, "connect", _learn_types)
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    event.listen(engine.sync_engine, "handle_error", lambda failure: hide_row(failure.original_exception.__cause__))
    if is_pooled:
        event.listen(engine.sync_engine, "begin", partial(_begin_with, settings))
    return engine


_OURS = frozenset({"timeout", "server_settings", "statement_cache_size"})


async def _connected(dsn: str, **arguments: Any) -> Any:
    """Connect with the whole URL, ignoring what SQLAlchemy passes beside our own arguments."""
    import asyncpg

    return await asyncpg.connect(dsn, **{name: arguments[name] for name in _OURS & arguments.keys()})


_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}
"""Seconds of silence before the first keepalive probe, seconds between probes, and how many may stay unanswered; and
the milliseconds for which sent data may stay unacknowledged."""


def _keep_alive(connection: Any, _record: Any) -> None:
    """Make the connection break within 15 seconds when the database's host vanishes silently, as in a power cut.

    The driver keeps the system's defaults: statements waited for ever for their answers, and those not yet acknowledged
    for a quarter of an hour.
    """
    wire = connection.driver_connection._transport.get_extra_info("socket")  # noqa: SLF001 - not exposed elsewhere
    if wire is None or wire.family == socket.AF_UNIX:
        return
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _ALIVE.items():
        # Not every system has all of them.
        if (option := getattr(socket, name, None)) is not None:
            wire.setsockopt(socket.IPPROTO_TCP, option, value)


_TYPES = ("bigint[]", "bool[]", "bytea[]", "float8[]", "int[]", "text[]", "timestamptz[]", "uuid[]")
_LEARN = "SELECT " + ", ".join(f"${number}::{name}" for number, name in enumerate(_TYPES, start=1))


def _learn_types(connection: Any, _record: Any) -> None:
    """Make the driver look up the types that statements use before the first statement has to wait for that.

    The driver does so for each new connection, which takes 8 to 10 ms: of 200 lone tasks one or two met a connection's
    first statement, so that the 99th percentile from submit to start was four times the median.
    """
    with named(_LEARN):
        connection.run_async(lambda driver: driver.fetch(_LEARN, *([] for _ in _TYPES)))


def _refuse_closed(connection: Any, _record: Any, _lent: Any) -> None:
    """Make the pool reconnect instead of lending a connection that PostgreSQL has closed, for example in a restart.

    The driver has learnt of that from the socket, so unlike a ping this costs no round trip.
    """
    if connection.driver_connection.is_closed():
        raise DisconnectionError("PostgreSQL closed the connection")


def postgres_readers(url: URL, *, is_pooled: bool = False) -> tuple[AsyncEngine, AsyncEngine]:
    """Return two engines for reads with the same connections.

    The transactions of the first each see one snapshot, as SQLite's do. Each statement of the second sees what is
    committed when it begins: without a transaction it saves two round trips. Only the settings of `is_pooled` need one.
    """
    engine = postgres_engine(url, size=READERS, is_pooled=is_pooled, settings=_READING)
    at_once = engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    return at_once, engine if is_pooled else engine.execution_options(isolation_level="AUTOCOMMIT")


WRITERS = 3
"""PostgreSQL: connections that write: one for the engine's batches, one that reads ahead of them, one for the
services."""


def postgres_writer(url: URL, *, is_pooled: bool = False) -> AsyncEngine:
    """Return an engine of `WRITERS` connections.

    With `is_pooled` each transaction has to begin with the settings of `WRITING`; SQLAlchemy begins none of them
    itself.
    """
    return postgres_engine(url, size=WRITERS, is_pooled=is_pooled, settings=_POSTGRES | WRITING)


def _begin_with(settings: Mapping[str, str], connection: Connection) -> None:
    told = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items() if name != _NAME)
    connection.exec_driver_sql(f"SELECT {told}")
