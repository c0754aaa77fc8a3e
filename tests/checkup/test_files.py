"""Files and directories that others may use, or that are somebody else's."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from treadle.wire.findings import Finding
from treadle_server.checkup import files
from treadle_server.settings import Settings


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A data directory as a server leaves it."""
    directory = tmp_path / "data"
    (directory / "artifacts").mkdir(mode=0o700, parents=True)
    directory.chmod(0o700)
    for name in ("token", "treadle.db", "artifacts/one"):
        (directory / name).touch(mode=0o600)
    return directory


def look(directory: Path, url: str = "") -> Finding:
    [finding] = files.look(Settings(data_dir=directory, database_url=url))
    assert isinstance(finding, Finding)
    return finding


def belongs_to(user: int, whose: Callable[[Path], bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the paths of which `whose` is true belong to a user; only root could give them away."""
    real = Path.stat

    def owned(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        found = real(path, follow_symlinks=follow_symlinks)
        return os.stat_result([*found[:4], user, *found[5:]]) if whose(path) else found

    monkeypatch.setattr(Path, "stat", owned)


def test_what_a_server_leaves_is_well_n4(directory: Path) -> None:
    assert look(directory).grade == "ok"


@pytest.mark.parametrize(
    ("name", "mode", "wanted"),
    [(".", 0o755, "700"), ("artifacts", 0o710, "700"), ("token", 0o640, "600"), ("artifacts/one", 0o604, "600")],
)
def test_what_others_may_use_is_found_however_deep_n4(directory: Path, name: str, mode: int, wanted: str) -> None:
    (directory / name).chmod(mode)

    finding = look(directory)

    assert (finding.grade, finding.advice.split()[:2]) == ("warn", ["chmod", wanted])
    assert f"{directory / name} is accessible to others ({mode:04o})" in finding.detail


def test_what_belongs_to_somebody_else_is_found_n4(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    belongs_to(4242, lambda path: path.name == "token", monkeypatch)

    finding = look(directory)

    assert (finding.grade, finding.advice) == ("warn", "chown it to the server's user")
    assert "token belongs to user 4242" in finding.detail


@pytest.mark.parametrize(
    ("mode", "told", "advice"),
    [
        (0o600, "belongs to user 0", "chown it to the server's user"),
        (0o644, "belongs to user 0", "chown it to the server's user"),
        (0o660, "is accessible to others (0660)", "chmod 600 each file"),  # as in a volume that a cluster lends
    ],
)
def test_a_file_that_root_has_put_there_is_found(
    directory: Path, mode: int, told: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A backup that root has put back, or `sudo treadle migrate`: no server of another user starts with it."""
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    (directory / "treadle.db").chmod(mode)
    belongs_to(4242, lambda path: path.is_relative_to(directory) and path.name != "treadle.db", monkeypatch)
    belongs_to(0, lambda path: path.name == "treadle.db", monkeypatch)

    finding = look(directory)

    assert (finding.grade, finding.advice) == ("warn", advice)
    assert f"treadle.db {told}" in finding.detail


@pytest.mark.parametrize(("name", "mode", "wanted"), [("artifacts", 0o500, "700"), ("treadle.db", 0o400, "600")])
def test_what_the_servers_user_may_not_write_is_found(directory: Path, name: str, mode: int, wanted: str) -> None:
    (directory / name).chmod(mode)

    finding = look(directory)

    assert (finding.grade, finding.advice.split()[:2]) == ("warn", ["chmod", wanted])
    assert f"{directory / name} is not accessible to its owner ({mode:04o})" in finding.detail


def test_root_finds_the_files_of_the_user_well_to_whom_the_directory_belongs_n4(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    belongs_to(4242, lambda path: path.is_relative_to(directory), monkeypatch)

    assert look(directory).grade == "ok"


def test_a_data_directory_that_is_a_link_is_looked_at_where_it_leads_n4(directory: Path, tmp_path: Path) -> None:
    (link := tmp_path / "link").symlink_to(directory)
    assert look(link).grade == "ok"
    directory.chmod(0o755)

    assert f"{link} is accessible to others (0755)" in look(link).detail


def test_a_database_elsewhere_is_looked_at_with_what_stands_beside_it_n4(directory: Path, tmp_path: Path) -> None:
    for name in ("other.db", "other.db-wal"):
        (tmp_path / name).touch(mode=0o600)
    assert look(directory, f"sqlite:///{tmp_path}/other.db").grade == "ok"
    (tmp_path / "other.db-wal").chmod(0o644)

    assert "other.db-wal is accessible" in look(directory, f"sqlite:///{tmp_path}/other.db").detail


def test_of_many_three_are_named(directory: Path) -> None:
    for n in range(5):
        (directory / f"log{n}").touch()
        (directory / f"log{n}").chmod(0o644)

    assert "and 2 more" in look(directory).detail
