"""A disk that is full, soon full, out of inodes or read-only."""

import os
from pathlib import Path

import pytest

from tests.checkup.conftest import Examine
from treadle.wire.findings import Finding
from treadle_server.checkup import disk

GB = 1000**3


def statvfs(*, free: int = 50 * GB, files: int = 10_000, flags: int = 0) -> os.statvfs_result:
    """What a disk of 100 GB tells."""
    blocks = free // 4096
    return os.statvfs_result((4096, 4096, 100 * GB // 4096, blocks, blocks, 1_000_000, files, files, flags, 255))


def found(monkeypatch: pytest.MonkeyPatch, there: Path, told: os.statvfs_result) -> Finding:
    monkeypatch.setattr(os, "statvfs", lambda _: told)
    [finding] = disk.look("the data directory", there)
    assert isinstance(finding, Finding)
    return finding


@pytest.mark.parametrize(
    ("told", "grade", "words"),
    [
        (statvfs(), "ok", "50 GB of 100 GB are free"),
        (statvfs(free=GB // 2), "warn", "500 MB of 100 GB are free.*soon be full"),
        (
            statvfs(free=disk.TOO_LITTLE - 4096),
            "fail",
            "100 MB of 100 GB.* too little; once it is full, submits are refused with 503",
        ),
        (statvfs(free=0), "fail", "0 B of 100 GB"),
        (statvfs(files=10), "warn", "only 10 files can be made"),
        (statvfs(files=0), "fail", "no file can be made"),
        (statvfs(flags=os.ST_RDONLY), "fail", "mounted read-only"),
    ],
)
def test_a_disk_without_room_is_found_f8(
    told: os.statvfs_result, grade: str, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    finding = found(monkeypatch, tmp_path, told)

    assert finding.grade == grade
    assert pytest.raises(AssertionError, match=words).matches(AssertionError(finding.detail))
    assert bool(finding.advice) == (grade != "ok")


def test_a_disk_that_is_as_good_as_full_is_not_told_to_be_emptied_by_what_writes_to_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`treadle prune` is answered 503 there as everything else is, and SQLite keeps the space of what was removed."""
    assert "treadle prune" in found(monkeypatch, tmp_path, statvfs(free=GB // 2)).advice
    advice = found(monkeypatch, tmp_path, statvfs(free=0)).advice

    assert "prune" not in advice
    assert advice.startswith("free space by other means: removing tasks needs space too")


def test_a_full_disk_of_artifacts_refuses_uploads_and_is_emptied_by_removing_tasks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It was said to refuse submits, and that to remove tasks takes room there."""
    monkeypatch.setattr(os, "statvfs", lambda _: statvfs(free=0))

    [finding] = disk.look(disk.OF_ARTIFACTS, tmp_path)

    assert isinstance(finding, Finding)
    assert (finding.grade, "uploads are refused with 503" in finding.detail) == ("fail", True)
    assert "treadle prune" in finding.advice


def test_a_directory_in_which_nothing_can_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As the system answers for a disk that has failed, which it takes for writing still by its flags.
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path or not mode & os.W_OK)

    [finding] = disk.look("the data directory", tmp_path)

    assert isinstance(finding, Finding)
    assert (finding.grade, finding.detail) == ("fail", f"nothing can be written to the data directory {tmp_path}")


def test_a_directory_that_is_not_there_yet_is_looked_at_where_it_will_be(tmp_path: Path) -> None:
    [finding] = disk.look("the data directory", tmp_path / "not" / "yet")

    assert isinstance(finding, Finding)
    assert str(tmp_path / "not" / "yet") in finding.detail
    assert not (tmp_path / "not").exists()


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_the_disk_of_artifacts_that_are_kept_elsewhere_is_looked_at_too(
    examined: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_ARTIFACTS", f"file://{tmp_path / 'elsewhere'}")

    told = [finding.detail for finding in examined()["disk"]]

    assert sum(f"of the directory of artifacts {tmp_path / 'elsewhere'}" in one for one in told) == 1


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_the_disk_of_artifacts_that_a_link_leads_to_is_looked_at_too(examined: Examine, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "data" / "artifacts").symlink_to(tmp_path / "large")

    told = [finding.detail for finding in examined()["disk"]]

    assert sum(f"of the directory of artifacts {tmp_path / 'data' / 'artifacts'}" in one for one in told) == 1


@pytest.mark.parametrize("spoilt_url", ["sqlite"], indirect=True)
def test_a_data_directory_into_which_the_user_may_not_look_is_told_of(
    examined: Examine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The doctor ended with a traceback: whether artifacts are a disk of their own was asked before all checks."""
    closed, real_stat, real_access = tmp_path / "data", Path.stat, os.access

    def stat(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        if closed in path.parents:
            raise PermissionError(13, "Permission denied", str(path))
        return real_stat(path, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(Path, "stat", stat)
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and real_access(path, mode))

    [finding] = examined()["disk"]

    assert (finding.grade, finding.detail) == ("fail", f"nothing can be written to the data directory {closed}")
