"""A database whose file is taken away while a server has it open: nothing is said to be kept that is lost (G1)."""

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from treadle_server.errors import ValidationFailed
from treadle_server.store.sqlite.places import FilesInPlace, FilesMoved
from treadle_server.store.store import SqlStore
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio

JOB = {"category": "tasks", "name": "add"}


def remove(path: Path) -> None:
    """Take the file away, to where it can be got back from."""
    path.rename(path.with_suffix(".gone"))


def replace(path: Path) -> None:
    """Put another one in its place."""
    remove(path)
    path.write_bytes(path.with_suffix(".gone").read_bytes())


@pytest.mark.parametrize("harm", [remove, replace])
@pytest.mark.parametrize("name", ["treadle.db", "treadle.db-wal"])
async def test_nothing_is_taken_while_the_databases_file_is_not_there_g1(
    tmp_path: Path, name: str, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    async with (
        serve(f"sqlite:///{tmp_path / 'treadle.db'}", data_dir=tmp_path) as server,
        httpx.AsyncClient(base_url=server.url, headers=server.headers) as http,
    ):

        async def submit() -> httpx.Response:
            return await http.post("/v1/rooms/lab/tasks/lab:tasks:add", json={"payload": {}})

        await http.put("/v1/rooms/lab/jobs", json=JOB)
        assert (await submit()).status_code == 202
        harm(path)

        refused = await submit()
        path.with_suffix(".gone").replace(path)

        assert (refused.status_code, refused.json()["type"]) == (503, "/v1/problems/store-unavailable")
        assert f"{name} was removed or replaced" in refused.json()["detail"]
        assert (await submit()).status_code == 202, "it was put back"
        assert (await http.get("/v1/rooms/lab/tasks")).json()["total"] == 2


def test_the_log_of_a_file_that_is_named_by_a_link_is_looked_for_beside_the_file_g1(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    for name in ("tasks.db", "tasks.db-wal"):
        (tmp_path / "disk" / name).touch()
    (tmp_path / "treadle.db").symlink_to("disk/tasks.db")
    files = FilesInPlace(str(tmp_path / "treadle.db"))
    files.check()

    remove(tmp_path / "disk" / "tasks.db-wal")

    with pytest.raises(FilesMoved, match=r"tasks\.db-wal was removed"):
        files.check()


@pytest.mark.parametrize("is_empty", [False, True])
def test_a_log_whose_file_is_missing_or_empty_is_kept_for_when_it_is_back_g1(tmp_path: Path, is_empty: bool) -> None:
    """SQLite deletes it as soon as the file is opened, and the server went on with an empty database."""
    file, log = tmp_path / "treadle.db", tmp_path / "treadle.db-wal"
    log.write_bytes(b"x" * 4096)
    if is_empty:
        file.touch()

    with pytest.raises(ValidationFailed, match=r"treadle\.db is (missing|empty), but not .*-wal; .* put the file back"):
        SqlStore(f"sqlite:///{file}")

    assert (file.exists(), log.stat().st_size) == (is_empty, 4096)


@pytest.mark.parametrize("database", [None, "", ":memory:", "file:tasks?mode=memory"])
def test_a_database_that_is_no_file_has_none_that_could_be_missing(database: str | None) -> None:
    FilesInPlace(database).check()
    FilesInPlace(database).check()
