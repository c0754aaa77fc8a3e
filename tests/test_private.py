"""What a server writes is its user's alone: the database holds the signing keys (N4)."""

import asyncio
import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy.engine import make_url

from tests.chaos.processes import Process, ServerProcess, running_server
from treadle.wire.findings import Finding
from treadle_server import private
from treadle_server.app import create_app
from treadle_server.checkup.database import of_sqlite
from treadle_server.cli import migrate
from treadle_server.errors import ValidationFailed
from treadle_server.settings import Settings
from treadle_server.store.sqlite.lock import hold_lock
from treadle_server.testing import serve


def modes(directory: Path) -> dict[str, str]:
    """The permissions of everything under the directory, itself too."""
    found = (directory, *directory.rglob("*"))
    return {str(path.relative_to(directory)): oct(stat.S_IMODE(path.stat().st_mode)) for path in found}


def umask() -> int:
    """What this process keeps from others."""
    os.umask(now := os.umask(0))
    return now


def make_readable(path: Path) -> None:
    path.chmod(0o644)


@pytest.fixture
def open_umask():
    """A shell in which everything may be read by everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_an_embedded_server_keeps_its_database_and_its_side_files_to_itself_n4(tmp_path: Path) -> None:
    (tmp_path / "given").mkdir(mode=0o755)
    database = tmp_path / "given" / "deep" / "down" / "treadle.db"

    async with (
        serve(f"sqlite:///{database}", data_dir=tmp_path / "data") as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as client,
    ):
        await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "noop", "schema": {}})
        found = modes(tmp_path / "given" / "deep") | modes(tmp_path / "data")

    assert {"down/treadle.db", "down/treadle.db-wal", "down/treadle.db-shm", "token"} <= found.keys()
    assert all(not int(mode, 8) & 0o077 for mode in found.values()), found


@pytest.mark.usefixtures("open_umask")
async def test_a_database_that_others_could_read_is_closed_to_them_when_a_server_opens_it_n4(tmp_path: Path) -> None:
    database = tmp_path / "treadle.db"
    async with serve(f"sqlite:///{database}", data_dir=tmp_path):
        pass
    make_readable(database)

    async with serve(f"sqlite:///{database}", data_dir=tmp_path):
        assert {mode for name, mode in modes(tmp_path).items() if name.startswith("treadle.db")} == {"0o600"}


@pytest.mark.usefixtures("open_umask")
def test_a_command_within_another_program_leaves_that_its_umask_n4(tmp_path: Path) -> None:
    database = tmp_path / "treadle.db"

    done = CliRunner().invoke(migrate, ["--database-url", f"sqlite:///{database}"])

    assert done.exit_code == 0, done.output
    assert oct(stat.S_IMODE(database.stat().st_mode)) == "0o600"
    assert umask() == 0


@pytest.mark.usefixtures("open_umask")
async def test_the_commands_files_are_private_artifacts_too_and_the_doctor_looks_n4(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    directory.mkdir(mode=0o755)
    with running_server(directory, f"sqlite:///{directory / 'treadle.db'}") as server:
        await _upload(server)
        found = modes(directory)
        stored = [name for name in found if name.startswith("artifacts/") and (directory / name).is_file()]
        open_ones = {name for name, mode in found.items() if int(mode, 8) & 0o077}
        said = await _doctor(server)

    assert stored
    # The directory was there, and the log is the test's own.
    assert open_ones == {".", "serving.server.log"}
    assert "chmod 700" in said


async def _upload(server: ServerProcess) -> None:
    async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=30) as client:
        made = await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "noop", "schema": {}})
        worker = made.json()["worker_id"]
        await client.post("/v1/rooms/lab/tasks/lab:tasks:noop", json={"payload": {}})
        task = (await client.post("/v1/tasks/claim", json={"worker_id": worker})).json()["task"]["id"]
        await client.post(f"/v1/tasks/{task}/runs/0/started")
        body = {"name": "a.txt", "content_type": "text/plain", "content_length": 5}
        announced = await client.post(f"/v1/tasks/{task}/runs/0/artifacts", json=body)
        assert announced.is_success, announced.text
        put = await client.put(announced.json()["put_url"], content=b"12345", headers={"Content-Type": "text/plain"})
        assert put.is_success, put.text


async def _doctor(server: ServerProcess) -> str:
    reached = {"TREADLE_URL": server.url, "TREADLE_DATA_DIR": str(server.directory)}
    process = Process(["doctor"], server.directory.parent / "doctor.log", reached)
    process.start()
    async with asyncio.timeout(60):
        await process.ended()
    return process.log.read_text()


@pytest.mark.parametrize("what", ["text", "tables"])
def test_a_file_of_another_program_is_refused_and_nothing_of_it_changed_n4(tmp_path: Path, what: str) -> None:
    """Neither who may read it, which a system's own file is closed to all by, nor its journal."""
    file = tmp_path / "passwd"
    if what == "text":
        file.write_text("root:x:0:0:root:/root:/bin/bash\n")
    else:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("CREATE TABLE users (name)")
    file.chmod(0o644)
    beside = tmp_path / "passwd-"
    beside.touch(0o644)
    before = file.read_bytes()

    with pytest.raises(ValidationFailed, match=r"not an SQLite file, and was not|no revision of Treadle"):
        create_app(Settings(data_dir=tmp_path / "data", database_url=f"sqlite:///{file}"))

    assert file.read_bytes() == before
    assert [oct(stat.S_IMODE(path.stat().st_mode)) for path in (file, beside)] == ["0o644", "0o644"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "passwd", "passwd-"]


@pytest.mark.parametrize("what", ["directory", "pipe"])
def test_what_is_no_file_is_refused_and_stays_open_to_whom_it_was_n4(tmp_path: Path, what: str) -> None:
    """A server that root began on /tmp, or on /dev/null, closed it to everybody else."""
    place = tmp_path / "place"
    place.mkdir() if what == "directory" else os.mkfifo(place)
    place.chmod(0o777)

    for command in (["--database-url", f"sqlite:///{place}"], ["--database-url", f"sqlite:///{tmp_path}/./place"]):
        told = CliRunner().invoke(migrate, [*command, "--data-dir", str(tmp_path / "data")])
        assert told.exit_code == 2
        assert (
            f"is {'a directory' if what == 'directory' else 'no regular file'}, and an SQLite database" in told.output
        )
    with pytest.raises(ValidationFailed, match="has to be a file: name a file"):
        create_app(Settings(data_dir=tmp_path / "data", database_url=f"sqlite:///{place}"))

    assert oct(stat.S_IMODE(place.stat().st_mode)) == "0o777"
    assert {path.name for path in tmp_path.iterdir()} <= {"data", "place"}


def test_a_file_that_may_not_be_looked_at_is_told_by_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed, real = tmp_path / "closed", Path.stat

    def stat_of(path: Path, **options: bool) -> os.stat_result:
        if path.is_relative_to(closed):
            raise PermissionError(13, "Permission denied")
        return real(path, **options)

    monkeypatch.setattr(private.Path, "stat", stat_of)

    with pytest.raises(ValidationFailed, match=r"the database's directory .*closed can't be used \(Permission"):
        create_app(Settings(data_dir=tmp_path / "data", database_url=f"sqlite:///{closed}/treadle.db"))


@pytest.mark.parametrize("target", ["disk/tasks.db", "treadle.db"], ids=["not mounted", "itself"])
def test_a_link_to_a_database_that_is_not_there_is_told_and_no_empty_one_is_made(tmp_path: Path, target: str) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "treadle.db").symlink_to(target)

    with pytest.raises(ValidationFailed, match=rf"is a link to {target}, which can't be found: check that its disk"):
        create_app(Settings(data_dir=tmp_path))

    assert list((tmp_path / "disk").iterdir()) == []
    [found] = of_sqlite(make_url(f"sqlite:///{tmp_path / 'treadle.db'}"), tmp_path)
    assert isinstance(found, Finding)
    assert (found.check, found.grade) == ("database", "fail")


def test_what_may_not_be_written_is_refused_before_it_is_opened_so_that_nothing_stays_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's log would be closed as its file is, and keep the next server out when the file were not so any more."""
    settings, file = Settings(data_dir=tmp_path), tmp_path / "treadle.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    closed, real = {file}, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and path not in closed)

    with pytest.raises(
        ValidationFailed, match=r"the database .*treadle\.db can't be written \(no permission to write\): make it writ"
    ):
        create_app(settings)
    real_statvfs = os.statvfs
    with monkeypatch.context() as read_only:
        read_only.setattr(os, "statvfs", lambda path: os.statvfs_result([*real_statvfs(path)[:8], os.ST_RDONLY, 255]))
        with pytest.raises(
            ValidationFailed, match=r"treadle\.db can't be written \(its disk is mounted read-only\): mak"
        ):
            create_app(settings)
        [found] = [one for one in of_sqlite(make_url(f"sqlite:///{file}"), tmp_path) if isinstance(one, Finding)]
        assert found.detail.endswith("it is not writable: its disk is mounted read-only")

    assert [path.name for path in tmp_path.glob("treadle.db*")] == ["treadle.db"]
    closed.clear()
    beside = tmp_path / "treadle.db-shm"
    beside.touch()
    closed.add(beside)
    with pytest.raises(ValidationFailed, match=r"the database .*treadle\.db-shm can't be written"):
        create_app(settings)
    closed.clear()
    create_app(settings)


def test_a_file_that_litestream_has_touched_first_is_taken(tmp_path: Path) -> None:
    file = tmp_path / "treadle.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)")

    create_app(Settings(data_dir=tmp_path, database_url=f"sqlite:///{file}"))


@pytest.mark.parametrize("whose", ["directory", "database"])
def test_what_belongs_to_another_user_is_refused_with_a_sentence_n4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    database = tmp_path / "treadle.db"
    database.touch()
    other, real = 4242, Path.stat

    def stat_of(path: Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        is_other = path == (tmp_path if whose == "directory" else database)
        return os.stat_result([*found[:4], other, *found[5:]]) if is_other else found

    monkeypatch.setattr(private.Path, "stat", stat_of)

    with pytest.raises(ValidationFailed, match=r"belongs to the user with the ID 4242.*TREADLE_DATA"):
        create_app(Settings(data_dir=tmp_path, database_url=f"sqlite:///{database}"))


def test_a_directory_that_is_roots_may_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.stat

    def stat_of(path: Path, **options: bool) -> os.stat_result:
        found = real(path, **options)
        return os.stat_result([*found[:4], 0, *found[5:]])

    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    monkeypatch.setattr(os, "access", lambda *_: True)
    monkeypatch.setattr(private.Path, "stat", stat_of)

    assert private.make_directory(tmp_path, name="it", setting="--data-dir") == tmp_path


def test_a_directory_may_lie_as_deep_as_the_system_allows(tmp_path: Path) -> None:
    """`Path.mkdir` makes parents by calling itself: a thousand of them were a RecursionError."""
    (tmp_path / "file").touch()
    for first in "ab":
        deep = tmp_path.joinpath(first, *1500 * "a")
        if first == "a":
            assert private.make_directory(deep, name="it", setting="TREADLE_DATA_DIR") == deep
        else:
            with hold_lock(make_url(f"sqlite:///{deep}/x.db")):
                (deep / "x.db-server").unlink()
        assert oct(stat.S_IMODE((tmp_path / first).stat().st_mode)) == "0o700"
        os.removedirs(deep)  # what removes it else calls itself too

    with pytest.raises(ValidationFailed, match=r"it .*file/b/c can't be used \(.*file is not a directory\)"):
        private.make_directory(tmp_path / "file/b/c", name="it", setting="TREADLE_DATA_DIR")
