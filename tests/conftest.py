"""What every test shares: a database of each kind, and a clock that tests turn by hand."""

import asyncio
import gc
import os
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial, wraps
from pathlib import Path
from shutil import copyfile
from typing import Any
from uuid import uuid4
from zlib import crc32

import asyncpg
import httpx
import pytest
from hypothesis import HealthCheck, settings

from tests.clients import PLAIN
from tests.embedded import embedded_postgres
from tests.seed import AGAIN

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # As a shell starts what it puts into the background, and all that is started from there: some tests send it.
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # As nohup has it.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# How long an example takes says how busy the machine is.
settings.register_profile("treadle", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("treadle")


os.environ.setdefault("TREADLE_TEST_LOCKSTEP_SEED", str(random.SystemRandom().randrange(10**9)))


def pytest_report_header() -> list[str]:
    """Say how this run's random tests are run again: by the seed of all, and that of the search of `tests/model`."""
    return [AGAIN, f"lock-step: TREADLE_TEST_LOCKSTEP_SEED={os.environ['TREADLE_TEST_LOCKSTEP_SEED']}"]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int) -> None:
    """Say it where something failed, for the header is far away, or was not shown."""
    if exitstatus != pytest.ExitCode.OK:
        for line in pytest_report_header():
            terminalreporter.write_line(line)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note in the report what runs on PostgreSQL, and mark what the default run leaves to `nox -s crossed`."""
    cases: dict[tuple[object, str], list[pytest.Function]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("postgres") is not None:
            item.user_properties.append(("database", "PostgreSQL"))
        folder = next(iter(item.path.relative_to(_TESTS).parent.parts), "")
        if not isinstance(item, pytest.Function) or folder not in _FROM_OUTSIDE:
            continue
        if not _DATABASES.isdisjoint(_parameters(item)):
            cases[item.parent, item.originalname].append(item)
    for several in cases.values():
        _leave_every_other(several)


def pytest_collection_finish() -> None:
    """Have the collector look as seldom as a server's does, and never through what was imported and collected.

    Looking through ten thousand tests at every turn took 15 % of the processor time of a run.
    """
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


_TESTS = Path(__file__).parent

_FROM_OUTSIDE = {
    "", "access", "api", "artifacts", "authorization", "chaos", "checkup", "contract", "internal", "live", "operations",
    "promises", "retention", "schedules", "services", "serving", "webhooks", "worker",
}  # fmt: skip
"""Where a server is seen from outside: what differs by the database is in the tests of the engine, the store, reads and
several servers, each of which runs on both.
"""


_DATABASES = {"database_url", "empty_database_url", "server"}
"""The parameters that are a database of each kind, or a server on it."""


def _parameters(item: pytest.Function) -> dict[str, int]:
    """The value that each parameter of the test has, as the object that it is: all its cases have the same."""
    return {name: id(value) for name, value in item.callspec.params.items()} if hasattr(item, "callspec") else {}


def _leave_every_other(cases: list[pytest.Function]) -> None:
    """Mark those cases of a test as crossed whose parameters run in other cases too.

    Of the combinations with a database every other one is left, like the fields of one colour on a chessboard: each
    value still runs, on one database or the other, and so does each pair of values beside the database. Half of the
    tests without another parameter run on the one, half on the other. What is marked `one_database` shows nothing of
    the database, and is left on SQLite.
    """
    given = [_parameters(case) for case in cases]
    # Each parameter's values, numbered as they come; names that are given together have the same column.
    columns = {name: tuple(_numbered([one[name] for one in given])) for name in given[0]}
    [databases] = [columns.pop(name) for name in _DATABASES & columns.keys()]
    others = {column for column in columns.values() if max(column) > 0}
    for n, (case, database) in enumerate(zip(cases, databases, strict=True)):
        wanted = sum((column[n] for column in others), start=crc32(case.originalname.encode())) % 2
        if case.get_closest_marker("one_database") is not None:
            wanted = 0
        if max(databases) > 0 and database != wanted:
            case.add_marker("crossed")


def _numbered(values: list[int]) -> list[int]:
    numbers: dict[int, int] = {}
    return [numbers.setdefault(value, len(numbers)) for value in values]


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


@pytest.fixture
def no_collector() -> Iterator[None]:
    """No collector of cycles during a test: what is left then is what counting references does not free."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return ("asyncio", {})


class SharedStatements(dict[Any, Any]):
    """What SQLAlchemy made of each statement, for all engines of a kind.

    An engine keeps it for itself, under its own dialect. With a store for each test, making it again was a fifth of
    the time.
    """

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._for_all(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(self._for_all(key), value)

    @staticmethod
    def _for_all(key: Any) -> Any:
        dialect, *statement = key
        return (type(dialect), *statement)


@pytest.fixture(scope="session", autouse=True)
def _shared_statements() -> Iterator[None]:
    from treadle_server.store import connections

    shared = SharedStatements()
    with pytest.MonkeyPatch.context() as patch:
        for name in ("create_engine", "create_async_engine"):
            patch.setattr(
                connections, name, partial(getattr(connections, name), execution_options={"compiled_cache": shared})
            )
        yield


@pytest.fixture(scope="session", autouse=True)
def _shared_types() -> Iterator[None]:
    """What asyncpg asks about PostgreSQL's own types, for all connections of this process.

    Each asks it anew, three times a server: that was a third of what a test costs PostgreSQL.
    """
    told: dict[frozenset[int], Any] = {}
    ask = asyncpg.Connection._introspect_types

    async def introspect(self: asyncpg.Connection, types: Iterable[int], *within: Any) -> Any:
        asked = frozenset(types)
        if max(asked) >= _FIRST_TYPE_OF_A_USER:
            return await ask(self, asked, *within)
        if asked not in told:
            told[asked] = await ask(self, asked, *within)
        return told[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(asyncpg.Connection, "_introspect_types", introspect)
        yield


_FIRST_TYPE_OF_A_USER = 16384
"""What is below is numbered alike in every database."""


@pytest.fixture(scope="session", autouse=True)
def _patient_clients() -> Iterator[None]:
    """A test's client that names no time waits for a minute: httpx gives up after five seconds of a busy machine.

    All have the certificates in common: each would read them anew, which takes 20 ms, and a test has several.
    """
    with pytest.MonkeyPatch.context() as patch:
        for kind in (httpx.Client, httpx.AsyncClient):
            patch.setattr(kind, "__init__", _patient(kind.__init__))
        yield


def _patient(init: Callable[..., None]) -> Callable[..., None]:
    @wraps(init)
    def patient(self: object, *given: Any, timeout: Any = 60.0, verify: Any = True, **more: Any) -> None:
        init(self, *given, timeout=timeout, verify=PLAIN if verify is True else verify, **more)

    return patient


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL server: the one that the environment names, or one that this run starts."""
    if url := os.environ.get("TREADLE_TEST_POSTGRES_URL"):
        yield url.replace("postgresql+asyncpg://", "postgresql://")
        return
    data = tmp_path_factory.mktemp("postgres")
    server = embedded_postgres().get_server(data, cleanup_mode="delete")
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


class ReusedDatabase:
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
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._connection: asyncpg.Connection | None = None
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
        if self._uses >= self.MOST_USES or not self._runner.run(self._empty()):
            self.drop()

    def drop(self) -> None:
        """Drop it, whoever is connected."""
        if self._connection is not None:
            self._runner.run(self._connection.close())
        self._making.close()
        self._connection = self._name = None

    def close(self) -> None:
        """Drop it for good."""
        self.drop()
        self._runner.close()

    async def _empty(self) -> bool:
        assert self._name is not None
        try:
            if self._connection is None:
                # Kept, idle: one for each test took 12 ms more.
                self._connection = await asyncpg.connect(_database_of(self.url, self._name))
                await self._connection.execute(_EMPTYING)
            deleted = await self._connection.fetchval("SELECT pg_temp.emptied()")
        except (asyncpg.PostgresError, asyncpg.InterfaceError):
            return False
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
def reused_postgres(postgres_url: str, postgres_template: str) -> Iterator[ReusedDatabase]:
    """Where the tests of this process have their database from."""
    reused = ReusedDatabase(postgres_url, postgres_template)
    yield reused
    reused.close()


@pytest.fixture
def fresh_database(request: pytest.FixtureRequest) -> None:
    """Has the test's database on PostgreSQL made anew: what was deleted in a used one sways the planner."""
    if request.node.get_closest_marker("postgres") is not None:
        request.getfixturevalue("reused_postgres").drop()


@pytest.fixture
def postgres_database(reused_postgres: ReusedDatabase) -> Iterator[str]:
    """The URL of a database without a row on PostgreSQL."""
    yield reused_postgres.take()
    reused_postgres.give_back()


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
    await store.seek_exclusive()
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
