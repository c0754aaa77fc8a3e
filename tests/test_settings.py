"""Settings that are wrong: a sentence that says what to do, and never a traceback."""

import pwd
import socket
import sqlite3
import sys
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import ValidationError
from pydantic_settings import BaseSettings
from sqlalchemy.engine import make_url

from treadle.cli.group import treadle
from treadle.settings import InvalidSetting
from treadle.settings import Settings as WorkerSettings
from treadle.wire.fields import TEN_YEARS
from treadle_server import cli
from treadle_server.serving import server as serving
from treadle_server.settings import LONGEST, Settings
from treadle_server.store import connections, urls
from treadle_server.store.urls import parse_url


@pytest.fixture(autouse=True)
def _process_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command does to its process goes with its test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(cli, "calm_collector", lambda: None)
    monkeypatch.setattr(cli, "_keep_freed_memory", lambda: None)


def run(directory: Path, *words: str, **environment: str) -> Result:
    """Run `treadle` in this process; what it raises beside a sentence fails the test."""
    ended = CliRunner(catch_exceptions=False).invoke(
        treadle, words, env={"TREADLE_DATA_DIR": str(directory), **environment}
    )
    assert ended.exit_code in {1, 2}
    return ended


def refused(directory: Path, *words: str, **environment: str) -> str:
    """Return the one sentence with which `treadle` refuses what is wrong."""
    *_, told = run(directory, *words, **environment).stderr.rpartition("Error: ")
    assert told.count("\n") == 1, told
    return told


WHOLE = sorted(name for name, field in Settings.model_fields.items() if field.annotation in {int, int | None})


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_that_no_frame_can_have_is_refused(name: str) -> None:
    """A session's welcome tells the largest frame: no websocket opened, each time with a traceback."""
    with pytest.raises(ValidationError, match="less than or equal to"):
        Settings(**{name: 2**63})  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["server --port 0", "migrate"])
@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("nonsense", "invalid database URL 'nonsense': write sqlite:///path or postgresql://"),
        ("postgresql://me@host%00/x", "invalid database URL 'postgresql://me@host%00/x'"),
        ("postgresql://me:secret@host:port/x", "invalid database URL 'postgresql://me:***@host:port/x'"),
        ("postgresql://me:s@cret@host:port/x", "invalid database URL 'postgresql://me:***@host:port/x'"),
        ("postgresql://me:s@cret@host/x", "invalid database URL 'postgresql://me:***@host/x'"),
        ("postgresql:/me:cret@host/x", "invalid database URL 'postgresql:/me:***@host/x'"),
        ("postgresql//me:cret@host/x", "invalid database URL 'postgresql//me:***@host/x'"),
        ("me:cret@host/x", "invalid database URL 'me:***@host/x'"),
        ("postgresql://host:port/x?password=cret", "invalid database URL 'postgresql://host:port/x?password=***'"),
        ("postgresql://me:cret@one:1,two:port/x", "invalid database URL 'postgresql://me:***@one:1,two:port/x'"),
        ("postgresql://me:cret@one,/x", "invalid database URL 'postgresql://me:***@one,/x'"),
        (
            "postgresql://me:cret@db/x?sslmode=verify-full&sslrootcert=/nowhere/db.pem",
            "sslrootcert in the database's URL names /nowhere/db.pem, which can't be read",
        ),
        ("postgresql://me:cret@host:99999/x", "invalid database URL 'postgresql://me:***@host:99999/x'"),
        ("postgresql://one:1,two:-1/x", "invalid database URL 'postgresql://one:1,two:-1/x'"),
        ("postgresql://one..two/x", "invalid database URL 'postgresql://one..two/x'"),
        ("sqlite://me:cret@/x.db", "'sqlite://me:***@/x.db' names no file"),
        (f"sqlite:////tmp/{'x' * 256}", "(File name too long)"),
        ("sqlite://me:cret@host/x.db", "'sqlite://me:***@host/x.db' names no file"),
        ("mysql://localhost/x", "use sqlite or postgresql"),
        ("sqlite:////dev/null/x.db", "/dev/null can't be used"),
        ("sqlite://", "'sqlite://' names no file"),
        ("sqlite:///:memory:", "'sqlite:///:memory:' names no file"),
        (
            "sqlite:///file:x.db?uri=true",
            "names no file, and an SQLite database has to be one: write sqlite:///path",
        ),
        ("sqlite://x.db", "'sqlite://x.db' names no file"),
        ("sqlite:////nowhere/what?/x.db", "take no parameters; a ? in the path is written %3F"),
        ("sqlite:////nowhere/x.db?mode=ro", "SQLite URLs take no parameters"),
    ],
)
def test_a_database_that_is_none(tmp_path: Path, command: str, url: str, word: str) -> None:
    told = refused(tmp_path, *command.split(), "--database-url", url)

    assert word in told
    assert "cret" not in told


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("server --port 0 --database-url mysql://localhost/x", 2),
        ("server --port 0 --internal nowhere:registry", 2),
        ("server --port 0 --internal json:registry", 2),
        ("migrate --database-url nonsense", 2),
        ("copy nonsense sqlite:///x.db", 2),
        ("copy sqlite:////nowhere/x.db sqlite:///x.db", 1),
    ],
)
def test_what_can_not_be_meant_ends_a_command_with_2_and_what_is_not_there_with_1(
    tmp_path: Path, words: str, code: int
) -> None:
    """A database or registry that is none ended it with 1, as what is refused or not reached."""
    assert run(tmp_path, *words.split()).exit_code == code


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("hello " * 1000)

    assert "not an SQLite file" in refused(tmp_path, "migrate", "--database-url", f"sqlite:///{tmp_path}/x.db")


@pytest.mark.postgres
def test_a_postgresql_that_has_no_such_database(tmp_path: Path, postgres_url: str) -> None:
    url = make_url(postgres_url).set(database="there_is_none").render_as_string(hide_password=False)

    assert '"there_is_none" does not exist' in refused(tmp_path, "migrate", "--database-url", url)


@pytest.mark.postgres
def test_a_direct_address_that_leads_to_another_database(
    tmp_path: Path, postgres_url: str, postgres_database: str
) -> None:
    """There another Treadle may lead, and nobody would here; or each of two servers here."""
    told = refused(
        tmp_path,
        *("server", "--port", "0"),
        TREADLE_DATABASE_URL=postgres_database,
        TREADLE_DATABASE_DIRECT_URL=postgres_url,
    )

    assert "TREADLE_DATABASE_DIRECT_URL and TREADLE_DATABASE_URL name different databases" in told


@pytest.mark.parametrize("of_pool", ["sqlite:///x.db", "postgresql://h/x"])
def test_a_direct_address_of_what_has_no_pools(tmp_path: Path, of_pool: str) -> None:
    told = refused(
        tmp_path, "server", TREADLE_DATABASE_URL=of_pool, TREADLE_DATABASE_DIRECT_URL="sqlite+aiosqlite:///y.db"
    )

    assert "must lead to one PostgreSQL, and one is SQLite's" in told


def test_postgresql_without_its_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(urls, "find_spec", lambda _: None)

    told = refused(tmp_path, "server", "--port", "0", "--database-url", "postgresql://127.0.0.1/x")

    assert "pip install 'treadle-server[postgres]'" in told


@pytest.mark.parametrize("command", ["server --port 0", "migrate"])
def test_a_database_that_a_newer_version_has_migrated(tmp_path: Path, command: str) -> None:
    with closing(sqlite3.connect(tmp_path / "treadle.db")) as database:
        database.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        database.execute("INSERT INTO alembic_version VALUES ('9999')")
        for table in ("jobs", "lanes", "tasks", "runs", "workers"):
            database.execute(f"CREATE TABLE {table} (id INTEGER)")
        database.commit()

    told = refused(tmp_path, *command.split())

    assert "revision 9999" in told
    assert "a newer one has migrated it" in told


@pytest.mark.parametrize(
    "command",
    ["migrate --database-url=", "migrate --data-dir=", "server --data-dir=", "server --tls-cert=", "server --host="],
)
def test_an_empty_option_is_a_variable_that_is_not_set(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was the database of the data directory that was migrated, or a data directory in the current one."""
    monkeypatch.chdir(tmp_path)

    told = refused(tmp_path, *command.split())

    assert told == f"{command.split()[1][:-1]}: must not be empty: give a value, or leave it out\n"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ValidationError, match="the path is empty"):
        Settings(data_dir="")


@pytest.mark.parametrize("place", ["file", "file/below"])
def test_a_data_directory_that_can_not_be_made(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")

    assert "TREADLE_DATA_DIR" in refused(tmp_path / place, "server", "--port", "0")


def test_a_data_directory_that_can_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)  # root may write everywhere

    assert "no permission to write" in refused(tmp_path, "server", "--port", "0")


def test_a_token_that_can_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "token").mkdir()

    assert str(tmp_path / "token") in refused(tmp_path, "server", "--port", "0")


def test_artifacts_that_have_no_place(tmp_path: Path) -> None:
    told = refused(tmp_path, "server", "--port", "0", TREADLE_ARTIFACTS="file:///dev/null/x")

    assert "artifacts /dev/null/x can't be used (/dev/null is not a directory)" in told
    assert "TREADLE_ARTIFACTS" in told


@pytest.mark.parametrize(
    "url",
    [
        "queue.example",
        "https://queue.example/?x=1",
        "https://queue.example#x",
        "http://",
        "http://h:99999",
        "http://h:x",
    ],
)
def test_a_public_url_below_which_nothing_can_stand(tmp_path: Path, url: str) -> None:
    told = refused(tmp_path, "server", "--port", "0", TREADLE_PUBLIC_URL=url)

    assert f"invalid URL '{url}': write http://host:port" in told


@pytest.mark.parametrize("url", ["file://artifacts", "file://data/artifacts"])
def test_artifacts_at_a_path_that_is_none(tmp_path: Path, url: str) -> None:
    """The first was the current directory, the second `/artifacts`."""
    told = refused(tmp_path, "server", "--port", "0", TREADLE_ARTIFACTS=url)

    assert f"'{url}' has no absolute path: write file:///path" in told


@pytest.mark.parametrize("name", ["data_dir", "tls_cert"])
@pytest.mark.parametrize("path", ["a\0b", "\ud800", 1])
def test_a_path_that_no_file_can_have(name: str, path: object) -> None:
    """In code, for no variable can hold one: it was an error of the system's call, of no setting."""
    with pytest.raises(
        ValidationError, match=rf"{name}\n.*(which no file name can|is not a path: write it as a string)"
    ):
        Settings(**{name: path})


def test_a_path_of_a_worker_that_no_file_can_have() -> None:
    with pytest.raises(InvalidSetting, match=r"TREADLE_DATA_DIR: .* contains a NUL character"):
        WorkerSettings(data_dir="a\0b")  # type: ignore[arg-type]


def test_internal_jobs_without_taskiq(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("treadle.internal", "examples"))]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "some_jobs.py").write_text("from treadle.internal import InternalRegistry\n")
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "taskiq"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [WithoutTaskiq(), *sys.meta_path])

    told = refused(tmp_path, "server", "--port", "0", "--internal", "some_jobs:registry")

    assert "pip install 'treadle-server[internal]'" in told


class WithoutTaskiq:
    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == "taskiq":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        told = refused(tmp_path, "server", "--port", str(other.getsockname()[1]))

    assert "choose another port with --port" in told


def test_a_port_of_metrics_that_is_taken_or_an_address_that_is_none_of_this_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The advice was to choose another `--port`, which is that of the tasks."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        monkeypatch.setenv("TREADLE_METRICS_PORT", str(other.getsockname()[1]))
        taken = refused(tmp_path, "server", "--port", "0")
    monkeypatch.setenv("TREADLE_METRICS_HOST", "203.0.113.7")
    absent = refused(tmp_path, "server", "--port", "0")

    assert "choose another port with TREADLE_METRICS_PORT" in taken
    assert "with TREADLE_METRICS_HOST" in absent


@pytest.mark.parametrize("host", ["203.0.113.7", "no-such-host.invalid"])
def test_an_address_that_is_none_of_this_machines(tmp_path: Path, host: str) -> None:
    assert "--host" in refused(tmp_path, "server", "--port", "0", "--host", host)


def test_a_port_that_is_the_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Guarded(socket.socket):
        def bind(self, address: object) -> None:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(serving.socket, "socket", Guarded)

    assert "below 1024" in refused(tmp_path, "server", "--port", "80")


@pytest.mark.parametrize(
    ("variable", "value", "word"),
    [
        ("TREADLE_PORT", "abc", "TREADLE_PORT: write a whole number"),
        ("TREADLE_PORT", "70000", "not '70000'"),
        ("TREADLE_LEASE_SECONDS", "inf", "TREADLE_LEASE_SECONDS"),
        ("TREADLE_LEASE_SECONDS", "nan", "TREADLE_LEASE_SECONDS"),
        ("TREADLE_LEASE_SECONDS", "1e12", "TREADLE_LEASE_SECONDS: write at most 315360000"),
        ("TREADLE_ARTIFACTS", "ftp://x", "TREADLE_ARTIFACTS: unknown artifact store 'ftp://x'"),
        ("TREADLE_ARTIFACTS", "file:///a%00b", "'file:///a\\x00b' contains a NUL character, which no file name can"),
        ("TREADLE_AUTH", "nobody", "TREADLE_AUTH"),
        ("TREADLE_ALLOWED_CATEGORIES", "tasks,a:b", "TREADLE_ALLOWED_CATEGORIES: invalid category 'a:b'"),
        ("TREADLE_ALLOWED_CATEGORIES", "a/b", "invalid category 'a/b'"),
        ("TREADLE_ALLOWED_CATEGORIES", ",", "TREADLE_ALLOWED_CATEGORIES: names no category, so no job could be regis"),
        ("TREADLE_ALLOWED_ORIGINS", "queue.example", "TREADLE_ALLOWED_ORIGINS: invalid origin 'queue.example'"),
        ("TREADLE_ALLOWED_ORIGINS", "https://a.example, *", "invalid origin '*': write https://host"),
        ("TREADLE_ALLOWED_ORIGINS", "https://a.example/page", "invalid origin 'https://a.example/page'"),
        ("TREADLE_DATABASE_DIRECT_URL", "postgresql://h/x", "database_direct_url is set without database_url: set"),
    ],
)
def test_a_value_of_the_server_that_can_not_be(tmp_path: Path, variable: str, value: str, word: str) -> None:
    assert word in refused(tmp_path, "server", **{variable: value})


def test_settings_do_not_show_passwords_to_who_reports_an_error_with_the_variables_of_each_frame() -> None:
    url = "postgresql://me:cret@host/x"

    assert "cret" not in repr(Settings(database_url=url, database_direct_url=url))


def test_an_origin_is_compared_as_browsers_write_it() -> None:
    settings = Settings(allowed_origins=("HTTPS://Queue.Example/", "null"))

    assert settings.allowed_origins == ("https://queue.example", "null")


def test_no_duration_reaches_beyond_the_dates_there_are() -> None:
    """Such a lease failed each claim, such a timeout the sweeper, and such a retention what removes tasks."""
    durations = {name: field for name, field in Settings.model_fields.items() if "float" in str(field.annotation)}

    for name in durations:
        with pytest.raises(ValidationError, match="less than or equal"):
            Settings(**{name: 1e11})
    longest = Settings(retention_failed_seconds=LONGEST, worker_timeout_seconds=LONGEST, lease_seconds=TEN_YEARS)
    assert datetime.now(UTC) - timedelta(seconds=longest.worker_timeout_seconds)
    assert {name for name in durations if name.endswith("_seconds")} >= {"lease_seconds", "retention_failed_seconds"}


@pytest.mark.parametrize("settings", [Settings, WorkerSettings])
@pytest.mark.parametrize("name", ["max_retries", "max_requeues", "retry_base", "retry_multiplier"])
def test_no_default_of_a_task_is_more_than_a_submit_may_say(settings: type[BaseSettings], name: str) -> None:
    """The server failed each submit that it gave such a number to, and refused each worker that brought one."""
    with pytest.raises(ValueError, match=r"less than or equal|write at most"):
        settings(**{name: 10**9})


def test_no_address_is_not_all_addresses(tmp_path: Path) -> None:
    assert "must not be empty" in refused(tmp_path, "server", "--host", "")


def test_a_variable_that_is_empty_counts_as_one_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TREADLE_{name.upper()}", raising=False)
    before = Settings()
    for name in Settings.model_fields:
        monkeypatch.setenv(f"TREADLE_{name.upper()}", "")

    assert Settings() == before


@pytest.mark.parametrize("name", ["a?b=c", "100%41", "mühle #1 &x"])
def test_a_database_stands_in_its_data_directory_whatever_that_is_called(tmp_path: Path, name: str) -> None:
    """Of what stood behind a question mark nothing was left: the database was a file beside the directory."""
    url = parse_url(Settings(data_dir=tmp_path / name).database_url)
    engine = connections.sqlite_writer(url)
    engine.connect().close()
    engine.dispose()

    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "treadle.db").is_file()


@pytest.mark.parametrize("settings", [Settings, WorkerSettings], ids=["server", "SDK"])
def test_a_path_from_a_file_of_variables_may_begin_with_the_users_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: type[Settings | WorkerSettings]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("TREADLE_DATA_DIR", "~/tasks")
    assert settings().data_dir == tmp_path / "tasks"

    monkeypatch.setenv("TREADLE_DATA_DIR", "~no-such-user/tasks")
    assert settings().data_dir == Path("~no-such-user/tasks")


def test_a_user_without_a_home_needs_none_as_a_client_and_is_told_as_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container whose user stands in no list: every command ended with a traceback, a token or not."""

    def unknown(number: int) -> None:
        raise KeyError(number)

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME", "TREADLE_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", unknown)

    assert WorkerSettings().read_local_token() is None
    for given in ({}, {"TREADLE_DATA_DIR": "~/tasks"}):
        told = CliRunner().invoke(treadle, ["server", "--port", "0"], env=given)
        assert (told.exit_code, "this user has no home directory: set TREADLE_DATA_DIR" in told.output) == (2, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["worker examples.hello", "watch --json", "tasks", "submit @global:tasks:hello"])
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TREADLE_URL", "nowhere"),
        ("TREADLE_URL", "http://host:port"),
        ("TREADLE_URL", "http://host:99999"),
        ("TREADLE_URL", "http://[::1"),
        ("TREADLE_ROOM", "a:b"),
        ("TREADLE_MAX_RETRIES", "-1"),
        ("TREADLE_TIMEOUT", "soon"),
        ("TREADLE_TIMEOUT", "inf"),
    ],
)
def test_a_value_of_the_sdk_that_can_not_be(tmp_path: Path, command: str, variable: str, value: str) -> None:
    assert refused(tmp_path, *command.split(), **{variable: value}).startswith(variable)


@pytest.mark.parametrize("name", ["..x", ".", "a b", "1", "examples..hello"])
def test_a_worker_of_what_is_no_module(tmp_path: Path, name: str) -> None:
    assert "is not a module name" in refused(tmp_path, "worker", name)
