"""Files and directories that others may use, or that are somebody else's."""

import os
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
    assert f"{directory / name} may be used by others ({mode:04o})" in finding.detail


def test_what_belongs_to_somebody_else_is_found_n4(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.lstat

    def lstat(path: Path) -> os.stat_result:
        found = real(path)
        return os.stat_result([*found[:4], 4242, *found[5:]]) if path.name == "token" else found

    monkeypatch.setattr(Path, "lstat", lstat)

    finding = look(directory)

    assert (finding.grade, finding.advice) == ("warn", "chown it to the server's user")
    assert "token belongs to user 4242" in finding.detail


def test_a_database_elsewhere_is_looked_at_with_what_stands_beside_it_n4(directory: Path, tmp_path: Path) -> None:
    for name in ("other.db", "other.db-wal"):
        (tmp_path / name).touch(mode=0o600)
    assert look(directory, f"sqlite:///{tmp_path}/other.db").grade == "ok"
    (tmp_path / "other.db-wal").chmod(0o644)

    assert "other.db-wal may be used" in look(directory, f"sqlite:///{tmp_path}/other.db").detail


def test_of_many_three_are_named(directory: Path) -> None:
    for n in range(5):
        (directory / f"log{n}").touch()
        (directory / f"log{n}").chmod(0o644)

    assert "and 2 more" in look(directory).detail
