"""One server on an SQLite file: a second one would not hear what the first does, and is refused (E8)."""

import errno
import os
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from sqlalchemy.engine import make_url

from treadle.cli.group import treadle
from treadle_server.errors import ValidationFailed
from treadle_server.serving.server import NotStarted
from treadle_server.store.sqlite.lock import hold_lock
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


def test_a_file_has_one_server_at_a_time_and_another_one_after_it_e8(tmp_path: Path) -> None:
    url = make_url(f"sqlite:///{tmp_path / 'treadle.db'}")
    with (
        hold_lock(url),
        pytest.raises(ValidationFailed, match=r"another server is using .*treadle\.db: "),
        hold_lock(url),
    ):
        pytest.fail("the second one was let in")

    with hold_lock(url):
        pass


def test_a_file_has_one_server_by_whatever_name_it_is_found_e8(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "disk" / "tasks.db").touch()
    (tmp_path / "treadle.db").symlink_to("disk/tasks.db")

    with (
        hold_lock(make_url(f"sqlite:///{tmp_path / 'treadle.db'}")),
        pytest.raises(ValidationFailed, match=r"another server is using .*tasks\.db: "),
        hold_lock(make_url(f"sqlite:///{tmp_path / 'disk' / 'tasks.db'}")),
    ):
        pytest.fail("the second one was let in")


@pytest.mark.parametrize("name", ["treadle.db", "other.db"])
def test_a_file_that_has_a_second_name_is_refused_by_either_e8(tmp_path: Path, name: str) -> None:
    """Two servers wrote to it at once, each with a log of its own."""
    (tmp_path / "treadle.db").touch()
    (tmp_path / "other.db").hardlink_to(tmp_path / "treadle.db")

    with (
        pytest.raises(ValidationFailed, match=rf"{name} has 2 names \(hard links\).* remove the others"),
        hold_lock(make_url(f"sqlite:///{tmp_path / name}")),
    ):
        pytest.fail("it was let in")

    (tmp_path / "other.db").unlink()
    with hold_lock(make_url(f"sqlite:///{tmp_path / 'treadle.db'}")):
        pass


def test_postgresql_needs_nobody_to_be_alone_e8() -> None:
    url = make_url("postgresql://127.0.0.1/x")
    with hold_lock(url), hold_lock(url):
        pass


def test_a_lock_that_can_t_be_made_is_told_with_what_to_look_at(tmp_path: Path) -> None:
    (tmp_path / "treadle.db-server").mkdir()

    with (
        pytest.raises(ValidationFailed, match=r"the lock file .*db-server can't .* \(Is a directory\): check the disk"),
        hold_lock(make_url(f"sqlite:///{tmp_path / 'treadle.db'}")),
    ):
        pytest.fail("nothing was locked")


def test_a_disk_that_keeps_no_locks_is_told_with_what_to_take_instead(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some that stand behind a network: the start ended with the error's number alone."""

    def refused(_file: int, _how: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", refused)

    with (
        pytest.raises(
            ValidationFailed,
            match=r"the lock file .*db-server can't .* \(No locks available\): put the database on a local disk",
        ),
        hold_lock(make_url(f"sqlite:///{tmp_path / 'treadle.db'}")),
    ):
        pytest.fail("nothing was locked")


async def test_a_second_server_on_the_file_says_what_to_do_and_the_first_goes_on_e8(tmp_path: Path) -> None:
    async with serve(f"sqlite:///{tmp_path / 'treadle.db'}", data_dir=tmp_path) as first:
        with pytest.raises(NotStarted, match=r"another server is using .* several servers share a PostgreSQL"):
            async with serve(first.settings.database_url, data_dir=tmp_path):
                pytest.fail("it started")

        async with httpx.AsyncClient(headers=first.headers) as client:
            assert (await client.get(f"{first.url}/v1/tasks")).status_code == 200


def test_a_server_that_is_refused_makes_no_empty_file_in_the_place_of_one_that_was_removed(tmp_path: Path) -> None:
    """It stood in the place into which the file was to be put back."""
    with hold_lock(make_url(f"sqlite:///{tmp_path / 'treadle.db'}")):
        refused = CliRunner().invoke(treadle, ["server", "--port", "0", "--data-dir", str(tmp_path)])

    assert refused.exit_code == 1
    assert "another server is using" in refused.output
    assert not (tmp_path / "treadle.db").exists()
