"""Connections: how Treadle opens SQLite and PostgreSQL so that a commit is durable and readers never wait."""

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
from treadle_server.store.sqlite.places import SIDES, file_of
from treadle_server.store.sqlite.reader import ReadingConnection
from treadle_server.store.sqlite.writer import MOST_TEXTS
from treadle_server.store.translated import named
from treadle_server.store.urls import dsn_of

READERS = 4
"""SQLite: read connections, each with a thread of its own."""


def _as_text(value: Any) -> Any:
    """Let JSON pass as the text that it is: it was checked where it came in and is never parsed again."""
    return value


# An error names its statement, not what was to be written: a log is no place for payloads.
_ALWAYS: dict[str, Any] = {"hide_parameters": True, "json_serializer": _as_text, "json_deserializer": _as_text}


def sqlite_writer(url: URL) -> Engine:
    """Return the engine of SQLite's one connection that writes, which `InlineWriter` takes.

    The directory is made, and a new file when it connects, for this user alone. Raises `ValidationFailed` when they
    can't be used, and when the file is another program's, of which nothing is changed, neither what it may be read by
    nor its journal.
    """
    path, setting = file_of(url), "--database-url or TREADLE_DATABASE_URL"
    make_directory(path.parent, name="the database's directory", setting=setting)
    # Before it is opened: beside a file that may only be read SQLite leaves a log that may not be written either, and
    # with that the next server would fail, though the file were mended.
    check_writable(path, name="the database", setting=setting, sides=SIDES)
    _check_own(url, setting)
    make = partial(make_file, path, name="the database", setting=setting, sides=SIDES)
    if os.path.lexists(path):
        make()
    engine = create_engine(
        url.set(drivername="sqlite"),
        # SQLAlchemy leaves transactions to the writer.
        isolation_level="AUTOCOMMIT",
        **_ALWAYS,
        poolclass=StaticPool,
        connect_args={"timeout": 0, "check_same_thread": False, "cached_statements": MOST_TEXTS},
    )

    # A new one not before it connects, which it does under the lock: who is refused leaves no empty file behind.
    event.listen(engine, "do_connect", lambda *_: make())
    event.listen(engine, "connect", partial(_configure, _WRITER))
    return engine


def _check_own(url: URL, setting: str) -> None:
    path = file_of(url)
    if not path.is_file() or not path.stat().st_size:
        return
    engine = sqlite_reader(url)
    try:
        with engine.connect() as connection:
            refused = refusal(connection, revisions(connection))
    except DatabaseError as error:
        if getattr(error.orig, "sqlite_errorcode", 0) & 0xFF != sqlite3.SQLITE_NOTADB:
            return  # whoever writes is told of what else is the matter
        refused = ValidationFailed(f"{path} is not an SQLite file, and was not changed: choose another with {setting}")
    finally:
        engine.dispose()
    if isinstance(refused, ValidationFailed):
        raise refused


def sqlite_reader(url: URL) -> Engine:
    """Return the engine of a connection that reads on the thread that uses it."""
    engine = create_engine(
        url.set(drivername="sqlite"),
        **_ALWAYS,
        poolclass=StaticPool,
        connect_args={"timeout": 30},
    )
    # Without mmap: what is read but once need not be held.
    event.listen(engine, "connect", partial(_configure, (*_COMMON, "PRAGMA query_only=ON")))
    event.listen(engine, "begin", _begin_snapshot)
    return engine


def sqlite_readers(url: URL) -> AsyncEngine:
    """Return the engine of SQLite's connections that read, each with a thread of its own."""
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
    """Begin a transaction that the driver does not begin by itself, so that one reader's statements agree."""
    connection.exec_driver_sql("BEGIN")


def _begin_soon(connection: Connection) -> None:
    """Have a transaction begun with the first statement, without a way to the thread for itself."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, ReadingConnection)
    driver.is_to_begin = True


_COMMON = ("PRAGMA busy_timeout=30000", "PRAGMA foreign_keys=ON", "PRAGMA temp_store=MEMORY")
_READER = (*_COMMON, "PRAGMA query_only=ON", "PRAGMA cache_size=-16000", "PRAGMA mmap_size=268435456")
# FULL: the log is synced before a commit returns (G1). 4,000 pages: the log is written back every 16 MiB, and cut to
# 64 MiB where somebody has read for so long that it could not be.
_WRITER = (
    *_COMMON,
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA wal_autocheckpoint=4000",
    "PRAGMA journal_size_limit=67108864",
    "PRAGMA cache_size=-32000",
    # The writer asks again by itself, without holding up the event loop.
    "PRAGMA busy_timeout=0",
)


def _configure(pragmas: tuple[str, ...], connection: Any, _record: Any) -> None:
    # Autocommit in the driver: the BEGINs here are the only ones.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in pragmas:
        cursor.execute(pragma)
    cursor.close()


_NAME = "application_name"
_LOCKED = {"lock_timeout": "15s"}
"""Who keeps a table locked for longer is named, as on SQLite: a transaction that a stranger left open held up every
batch behind it for ever, and nothing told of it. A server that stands still in one is cut off sooner, see `WRITING`."""

_POSTGRES = {"jit": "off", "enable_seqscan": "off", _NAME: "treadle", **_LOCKED}
"""The JIT costs more than it gives for statements that are this short. After a burst the planner knows nothing of the
table yet: it would read all of it for a page that an index has in order."""

_READING = {**_POSTGRES, "enable_bitmapscan": "off"}
"""A list ends with its page, and an index in its order ends there too: a bitmap is of all that there is, and is sorted.
A planner that knows nothing takes a million tasks for some ten thousand, fewer than a list may look through."""


WRITING = {
    "idle_in_transaction_session_timeout": "10s",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    **_LOCKED,
}
"""Plans of the writer's statements must not depend on statistics, which a table lacks after a burst: they go from what
they are given along an index. Without these a claim of 120 tasks took 7.3 ms in a fresh table, with them 4.0. A server
that stands still in the middle of a transaction keeps others waiting for ten seconds at most."""

KEPT_OPEN = {"idle_session_timeout": "0"}
"""Whatever the role's is: connections rest until they are needed, and to close one meanwhile has what just begins on it
fail. The one that holds the leader's lock has a bound of its own (`services/leader.py`)."""

_POOLED = {
    "statement_cache_size": 0,
    "prepared_statement_cache_size": 0,
    "prepared_statement_name_func": lambda: "",
}
"""A statement without a name lives until the next one, within the transaction: nothing of it stays in the session."""


def postgres_engine(
    url: URL, *, size: int, is_pooled: bool = False, settings: Mapping[str, str] = _POSTGRES
) -> AsyncEngine:
    """Return an engine of up to `size` connections, of sessions with the `settings`.

    With `is_pooled` they are those of a pool such as pgbouncer, which gives one to PostgreSQL for the length of a
    transaction: none keeps anything in its session, neither settings nor statements. Each begins with them then.
    """
    engine = create_async_engine(
        url,
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
    if is_pooled:
        event.listen(engine.sync_engine, "begin", partial(_begin_with, settings))
    return engine


_OURS = frozenset({"timeout", "server_settings", "statement_cache_size"})


async def _connected(dsn: str, **arguments: Any) -> Any:
    """Connect by the URL as a whole; what SQLAlchemy has read from it is left."""
    import asyncpg

    return await asyncpg.connect(dsn, **{name: arguments[name] for name in _OURS & arguments.keys()})


_ALIVE = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 15_000}
"""Seconds of silence before a host is asked whether it is there, between questions, and how many it may miss; and how
many milliseconds what was sent may stay without a receipt."""


def _keep_alive(connection: Any, _record: Any) -> None:
    """Have the connection break within 15 seconds when the database's host is gone without a word, as by a power cut.

    The driver leaves it at the system's defaults: statements waited for ever for their answers, and those on their way
    for a quarter of an hour.
    """
    wire = connection.driver_connection._transport.get_extra_info("socket")  # noqa: SLF001 - it shows it nowhere else
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
    """Have the driver ask for the types that statements name before the first one waits for that.

    It asks anew on each connection, which takes 8 to 10 ms: of 200 lone tasks one or two met a connection's first
    statement, and their 99th percentile of submit to start was four times the median.
    """
    with named(_LEARN):
        connection.run_async(lambda driver: driver.fetch(_LEARN, *([] for _ in _TYPES)))


def _refuse_closed(connection: Any, _record: Any, _lent: Any) -> None:
    """Have the pool connect anew instead of lending what PostgreSQL has closed meanwhile, as when it was restarted.

    The driver was told of that by the socket: unlike a ping, it costs no way there and back.
    """
    if connection.driver_connection.is_closed():
        raise DisconnectionError("PostgreSQL closed the connection")


def postgres_readers(url: URL, *, is_pooled: bool = False) -> AsyncEngine:
    """Return an engine for what only reads.

    Each statement sees what is committed when it begins, within a transaction or without one: without, it costs two
    ways there and back less. Only settings of `is_pooled` need one.
    """
    engine = postgres_engine(url, size=READERS, is_pooled=is_pooled, settings=_READING)
    return engine if is_pooled else engine.execution_options(isolation_level="AUTOCOMMIT")


WRITERS = 3
"""PostgreSQL: connections that write, one for the engine's batches, one that reads ahead of them, one for the services
beside it."""


def postgres_writer(url: URL, *, is_pooled: bool = False) -> AsyncEngine:
    """Return an engine of `WRITERS` connections.

    Of `is_pooled` each transaction has to begin with the settings of `WRITING`: SQLAlchemy begins none of them.
    """
    return postgres_engine(url, size=WRITERS, is_pooled=is_pooled, settings=_POSTGRES | WRITING)


def _begin_with(settings: Mapping[str, str], connection: Connection) -> None:
    told = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings.items() if name != _NAME)
    connection.exec_driver_sql(f"SELECT {told}")
