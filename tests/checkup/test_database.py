"""Databases that can't be reached or read, or would lose what they acknowledge; and that looking changes nothing."""

import hashlib
import os
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.checkup.conftest import Examine, execute
from treadle_server.checkup import database


def test_a_database_as_a_server_leaves_it_is_well_f8(examined: Examine, spoilt_url: str) -> None:
    found = examined()

    # The tests' PostgreSQL does not sync.
    findings = [one for several in found.values() for one in several]
    assert [one.detail for one in findings if one.grade != "ok" and "fsync" not in one.detail] == []
    assert {"disk", "files", "descriptors", "database", "migrations", "counts", "snapshots"} <= found.keys()


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_looking_leaves_every_byte_and_file_as_it_is_f8(examined: Examine, tmp_path: Path) -> None:
    """Of a server that ended, and of one that was killed, whose log has not been written back."""
    path = tmp_path / "data" / "treadle.db"

    def digests() -> dict[str, str]:
        return {
            one.name: hashlib.sha256(one.read_bytes()).hexdigest()
            for one in path.parent.iterdir() if not one.name.endswith("-shm")
        }  # fmt: skip

    before = digests()
    assert [one.grade for one in examined()["counts"]] == ["ok"]
    assert digests() == before == {"treadle.db": before["treadle.db"]}

    code = (
        "import os, sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('PRAGMA journal_mode=WAL');"
        "c.execute(\"INSERT INTO lane_counts VALUES (77, 'pending', 0, 5)\"); c.commit(); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    before = digests()
    assert path.with_name("treadle.db-wal").stat().st_size > 0
    assert [one.grade for one in examined()["counts"]] == ["fail"]
    assert digests() == before


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_damaged_page_is_told_in_a_line_that_says_what_to_do(examined: Examine, tmp_path: Path) -> None:
    path = tmp_path / "data" / "treadle.db"
    with closing(sqlite3.connect(path)) as connection:
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'alembic_version'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)

    [finding] = examined()["migrations"]

    assert finding.grade == "fail"
    assert "the database is damaged, or its disk can't be read: stop the server" in finding.detail
    assert "\n" not in finding.detail


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_another_users_directory_is_told_with_who_may_look_into_it(
    examined: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was told as a check that failed, which might be a bug."""
    path = tmp_path / "data" / "treadle.db"

    def refuse(one: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(one))

    monkeypatch.setattr(Path, "is_symlink", refuse)

    [finding] = examined()["database"]

    assert (finding.grade, finding.detail) == ("fail", f"{path} can't be looked at (Permission denied)")
    assert finding.advice == "run the doctor as the server's user, or root"


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_file_that_is_none_of_sqlites_is_found(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "data" / "treadle.db").write_bytes(b"x" * 4096)

    [finding] = examined()["database"]

    assert (finding.grade, "can't be read" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_of_a_disk_that_is_full_it_is_not_said_to_restore_the_backup(
    examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite can't make the index of a log there, and says that the disk has an error."""

    def full(_path: Path) -> sqlite3.Connection:
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise error

    monkeypatch.setattr(database, "_open", full)

    [finding] = examined()["database"]

    assert finding.grade == "fail"
    assert finding.advice == "the database's disk can't be read or written: check it, and whether it is full"


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("is_empty", [False, True])
def test_a_log_without_its_database_is_found_and_left_f8(examined: Examine, tmp_path: Path, is_empty: bool) -> None:
    """To look into an empty file deleted the log beside it, and all was said to be well."""
    path = tmp_path / "data" / "treadle.db"
    path.with_name("treadle.db-wal").write_bytes(b"x" * 4096)
    path.unlink()
    if is_empty:
        path.touch()

    [finding] = examined()["database"]

    assert (finding.grade, "put the file back" in finding.advice) == ("fail", True)
    assert path.with_name("treadle.db-wal").stat().st_size == 4096


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_journal_that_stops_the_writer_is_found(examined: Examine, spoilt_url: str) -> None:
    execute(spoilt_url, "PRAGMA journal_mode=DELETE")

    [finding] = examined()["database"]

    assert (finding.grade, "not WAL" in finding.detail) == ("warn", True)


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_file_that_may_not_be_written_is_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and Path(path).suffix != ".db")

    [finding] = examined()["database"]

    assert (finding.grade, "it is not writable" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_file_beside_it_that_may_not_be_written_is_found(
    examined: Examine, spoilt_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, beside = os.access, Path(f"{spoilt_url.removeprefix('sqlite:///')}-journal")
    beside.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: real(path, mode) and Path(path) != beside)

    [finding] = examined()["database"]

    assert (finding.grade, f"{beside} is not writable" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_an_sqlite_that_is_too_old_is_found(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 37, 2))

    assert "3.38.0 is needed" in examined()["database"][0].detail


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_database_in_memory_is_told_to_be_none(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", "sqlite:///:memory:")

    [finding] = examined()["database"]

    assert (finding.grade, "names no file" in finding.detail) == ("fail", True)


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_where_no_server_has_started_nothing_is_wrong_and_nothing_is_made(
    examined: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path / "none"))
    monkeypatch.delenv("TREADLE_DATABASE_URL")

    found = examined()

    assert {one.grade for several in found.values() for one in several} == {"ok"}
    assert "no server has started here" in found["database"][0].detail
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize("form", ["me:hidden@127.0.0.1:{}/tasks", "me@127.0.0.1:{}/tasks?password=hidden&ssl=disable"])
def test_a_postgresql_that_is_not_there_is_found_without_its_password(
    examined: Examine, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        monkeypatch.setenv("TREADLE_DATABASE_URL", "postgresql://" + form.format(taken.getsockname()[1]))

        [finding] = examined()["database"]

    assert finding.grade == "fail"
    assert "does not answer" in finding.detail
    assert "hidden" not in finding.detail


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_an_address_that_is_no_databases_is_found_and_the_rest_looked_at(
    examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATABASE_URL", "mysql://me:hidden@host/tasks")

    found = examined()

    [finding] = found["database"]
    assert (finding.grade, finding.advice) == ("fail", "set TREADLE_DATABASE_URL")
    assert "hidden" not in finding.detail
    assert [one.grade for one in found["files"]] == ["ok"]


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_settings_that_no_server_takes_are_named(examined: Examine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TREADLE_PORT", "many")

    [finding] = examined()["machine"]

    assert (finding.grade, "with these settings: TREADLE_PORT: write a whole number" in finding.detail) == (
        "fail",
        True,
    )


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_database_elsewhere_has_its_disk_looked_at_too(
    examined: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path / "elsewhere"))

    assert ["of the database" in one.detail for one in examined()["disk"]] == [False, True]
