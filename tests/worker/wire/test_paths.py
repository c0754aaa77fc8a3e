"""Paths that a person writes, and where files are looked for when nobody says where."""

from pathlib import Path

import pytest

from treadle.wire.paths import default_data_dir, user_path


@pytest.mark.parametrize(("given", "there"), [("data", ".local/share"), ("", ".local/share"), ("~/kept", "kept")])
def test_a_relative_directory_of_data_is_as_one_that_is_not_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, there: str
) -> None:
    """The XDG specification asks for it: a server and a worker of two directories looked in two places."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", given)

    assert default_data_dir() == tmp_path / there / "treadle"


def test_a_directory_of_data_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))

    assert default_data_dir() == tmp_path / "treadle"


def test_an_empty_home_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Root's data would have stood in `/.local/share`, and anybody else was told that this can't be made."""
    monkeypatch.setenv("HOME", "")
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    assert default_data_dir() == Path("~/.local/share/treadle")
    assert user_path("~") == Path("~")
    assert user_path("/~") == Path("/~")


@pytest.mark.parametrize("path", [".", "./", "..", "/", "data", "./~"])
def test_other_paths_are_what_they_are(path: str) -> None:
    assert user_path(path) == Path(path)
