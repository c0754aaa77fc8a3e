"""Files that the dashboard writes, and their names as they are typed."""

import os
from pathlib import Path

import pytest

from treadle_tui import files


async def test_a_file_that_comes_while_one_is_written_stays(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("theirs")

    with pytest.raises(FileExistsError):
        await files.write_json(path, {"tasks": []}, overwrite=False)

    assert path.read_text() == "theirs"
    assert [name.name for name in os.scandir(tmp_path)] == [path.name]


async def test_what_is_no_file_is_not_overwritten(tmp_path: Path) -> None:
    """Whoever runs it as root and exports to /dev/null would have that replaced by a file, for all who write there."""
    place = tmp_path / "null"
    os.mkfifo(place)

    with pytest.raises(OSError, match="this is not a regular file"):
        await files.write_json(place, {"tasks": []}, overwrite=True)

    assert place.is_fifo()
    assert [name.name for name in os.scandir(tmp_path)] == ["null"]


def test_the_home_is_completed_as_it_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "notes").mkdir()
    (tmp_path / ".secret").touch()

    assert files.completions("~") == ["~/"]
    assert files.completions("~/") == ["~/notes/"]
    assert files.completions("~/.s") == ["~/.secret"]
    assert files.completions("~/nowhere/x") == []
    # The dashboard ended at this one, while it was typed.
    assert files.completions("~no-such-user/x") == []
    assert files.path_of("~no-such-user/x") == Path("~no-such-user/x")
    assert files.path_of(" ~/notes/x.json ") == tmp_path / "notes" / "x.json"
