"""Connections: how Treadle opens SQLite and PostgreSQL so that a commit is durable and readers never wait."""

from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine
from sqlalchemy.pool import AsyncAdaptedQueuePool

from treadle_server.errors import ValidationFailed

READERS = 4
"""SQLite: read connections, each with a thread of its own."""


def _as_text(value: Any) -> Any:
    """Let JSON pass as the text that it is: it was checked where it came in and is never parsed again."""
    return value


def parse_url(text: str) -> URL:
    """Return the database's URL with the async driver filled in.

    Accepts `sqlite:///path`, `postgresql://…`, and both with `+aiosqlite` or `+asyncpg`.
    Raises `ValidationFailed` for any other database.
    """
    url = make_url(text)
    backend = url.get_backend_name()
    drivers = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
    if backend not in drivers:
        raise ValidationFailed(f"{url.drivername!r} is not a database that Treadle knows: use sqlite or postgresql")
    return url.set(drivername=drivers[backend])


def _sqlite_engine(url: URL, *, read_only: bool) -> AsyncEngine:
    if url.database:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_async_engine(
        url,
        json_serializer=_as_text,
        json_deserializer=_as_text,
        poolclass=AsyncAdaptedQueuePool,
        pool_size=READERS if read_only else 1,
        max_overflow=0,
        connect_args={"timeout": 30, "cached_statements": 256},
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _configure(connection: Any, _record: Any) -> None:
        # Autocommit in the driver: SQLAlchemy's BEGIN below is the only one.
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in _pragmas(read_only=read_only):
            cursor.execute(pragma)
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        # IMMEDIATE: a writer that found out late that another process writes could not wait for it.
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")

    return engine


def _pragmas(*, read_only: bool) -> tuple[str, ...]:
    common = ("PRAGMA busy_timeout=30000", "PRAGMA foreign_keys=ON", "PRAGMA temp_store=MEMORY")
    if read_only:
        return (*common, "PRAGMA query_only=ON", "PRAGMA cache_size=-16000", "PRAGMA mmap_size=268435456")
    # FULL: the log is synced before a commit returns (G1). The checkpoint limit is 16 MiB of log.
    return (
        *common,
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "PRAGMA wal_autocheckpoint=4000",
        "PRAGMA cache_size=-64000",
    )


def _postgres_engine(url: URL, *, size: int) -> AsyncEngine:
    return create_async_engine(
        url,
        json_serializer=_as_text,
        json_deserializer=_as_text,
        pool_size=size,
        max_overflow=0,
        pool_pre_ping=False,
        connect_args={
            "timeout": 10,
            # Plans of the hot statements must not depend on statistics, and the JIT costs more than it gives here.
            "server_settings": {"jit": "off", "application_name": "treadle"},
        },
    )


def open_engines(url: URL, *, writers: int = 1, readers: int = 4) -> tuple[AsyncEngine, AsyncEngine]:
    """Return the engine that writes and the one that reads."""
    if url.get_backend_name() == "sqlite":
        return _sqlite_engine(url, read_only=False), _sqlite_engine(url, read_only=True)
    return _postgres_engine(url, size=writers + 1), _postgres_engine(url, size=readers)
