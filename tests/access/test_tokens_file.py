"""The first token's file: what can't be written leaves no token behind, and is told (G10)."""

import asyncio
import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from treadle_server.access.tokens import Access
from treadle_server.clock import SystemClock
from treadle_server.serving.server import NotStarted
from treadle_server.settings import Settings
from treadle_server.store.store import SqlStore
from treadle_server.testing import serve

pytestmark = pytest.mark.anyio


@contextmanager
def full_disk() -> Iterator[None]:
    """A disk with room for what is there and for no other token."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", refuse)
        yield


async def test_a_start_that_cant_write_the_token_leaves_none_behind_and_says_what_to_do_g10(
    database_url: str, tmp_path: Path
) -> None:
    place = tmp_path / "data"
    for _ in range(2):
        with full_disk(), pytest.raises(NotStarted) as refused:
            async with serve(database_url, data_dir=place):
                pass
        assert str(place / "token") in str(refused.value)
        assert "No space left on device" in str(refused.value)
        assert "TREADLE_DATA_DIR" in str(refused.value)
        assert [path.name for path in place.iterdir() if path.name.startswith("token")] == []

    async with (
        serve(database_url, data_dir=place) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as client,
    ):
        page = (await client.get("/v1/tokens")).json()
        assert [item["superuser"] for item in page["items"]] == [True]


async def test_servers_that_start_at_once_in_one_directory_make_one_token_g10(
    store: SqlStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each made a superuser's, of which nobody had the one whose file the other had replaced."""
    here, there = (Access(store, Settings(data_dir=tmp_path), SystemClock()) for _ in range(2))
    both, looks, look = asyncio.Barrier(2), iter([1, 2]), Access._is_superuser

    async def look_at_once(access: Access, token: str | None) -> bool:
        found = await look(access, token)
        if next(looks, None):
            await both.wait()
        return found

    monkeypatch.setattr(Access, "_is_superuser", look_at_once)

    await asyncio.gather(here.prepare(), there.prepare())

    _, made = await here.page(limit=1, offset=0)
    assert made == 1
    assert (await here.principal((tmp_path / "token").read_text().strip())).superuser


async def test_what_stands_where_the_token_is_to_be_and_is_no_file_is_told_g10(
    database_url: str, tmp_path: Path
) -> None:
    (tmp_path / "data" / "token").mkdir(parents=True)

    with pytest.raises(NotStarted, match=r"token can't be read \(Is a directory\): remove it, or choose another"):
        async with serve(database_url, data_dir=tmp_path / "data"):
            pass


async def test_a_token_that_others_could_read_is_closed_to_them_when_a_server_starts_n4(
    database_url: str, tmp_path: Path
) -> None:
    """As after a directory was restored: the database was closed to them, and the superuser's token was not."""
    async with serve(database_url, data_dir=tmp_path):
        pass
    token = (tmp_path / "token").read_text()
    (tmp_path / "token").chmod(0o644)

    async with serve(database_url, data_dir=tmp_path):
        assert (tmp_path / "token").read_text() == token
        assert oct(stat.S_IMODE((tmp_path / "token").stat().st_mode)) == "0o600"


async def test_a_token_of_another_database_is_not_replaced_without_a_word(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A second server in one data directory took the token of the first, whose commands were refused from then on."""
    data, told = tmp_path / "data", f"a new token replaced the one in {tmp_path / 'data' / 'token'}"
    for database, is_told in (("one", False), ("one", False), ("two", True), ("two", False)):
        caplog.clear()
        async with serve(f"sqlite:///{tmp_path / database}.db", data_dir=data):
            assert (told in caplog.text) is is_told


async def test_a_token_that_another_databases_server_needs_is_not_replaced(tmp_path: Path) -> None:
    """Each of the two took the other's: whichever had started first refused all commands of this machine."""
    data = tmp_path / "data"
    async with serve(f"sqlite:///{tmp_path / 'one'}.db", data_dir=data):
        token = (data / "token").read_text()

        with pytest.raises(NotStarted, match=r"whose server uses this data directory: give this server one of its own"):
            async with serve(f"sqlite:///{tmp_path / 'two'}.db", data_dir=data):
                pass

        assert (data / "token").read_text() == token
    async with serve(f"sqlite:///{tmp_path / 'two'}.db", data_dir=data):
        assert (data / "token").read_text() != token


@pytest.mark.postgres
async def test_a_revoked_token_is_replaced_beside_another_server_of_the_database(
    postgres_database: str, tmp_path: Path
) -> None:
    async with serve(postgres_database, data_dir=tmp_path) as served:
        token = (tmp_path / "token").read_text()
        access = served.app.state.ctx.access
        [[local], _] = await access.page(limit=1, offset=0)
        await access.revoke(local.id)

        async with serve(postgres_database, data_dir=tmp_path):
            assert (tmp_path / "token").read_text() != token
