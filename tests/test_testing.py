"""The server that tests start in their own process: its database is made once, and each has its own."""

import socket
from pathlib import Path

import httpx
import pytest
from alembic import command

from treadle_server.testing import Served, serve

JOB = {"category": "tasks", "name": "add", "schema": {}, "retain": True}


async def jobs_of(served: Served) -> int:
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        return int((await http.get("/v1/stats")).json()["jobs"])


async def test_a_database_without_a_row_is_made_once_for_all_servers_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serve() as served:
        async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
            assert (await http.put("/v1/rooms/lab/jobs", json=JOB)).status_code == 201
        assert await jobs_of(served) == 1

    def again(*_: object) -> None:
        pytest.fail("it is made again")

    monkeypatch.setattr(command, "upgrade", again)
    async with serve(data_dir=tmp_path / "data") as served:
        assert await jobs_of(served) == 0

    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "data" / "treadle.db").stat().st_mode & 0o777 == 0o600


async def test_a_directory_is_served_again_with_what_was_kept_there(tmp_path: Path) -> None:
    async with serve(data_dir=tmp_path) as served, httpx.AsyncClient(base_url=served.url) as http:
        assert (await http.put("/v1/rooms/lab/jobs", json=JOB, headers=served.headers)).status_code == 201

    async with serve(data_dir=tmp_path) as served:
        assert await jobs_of(served) == 1


async def test_the_environment_of_another_server_does_not_say_where_this_one_is_reached_and_keeps_artifacts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        of_others = [
            *[("HOST", "203.0.113.7"), ("PORT", port), ("METRICS_PORT", port), ("PUBLIC_URL", "https://tasks.invalid")],
            *[("DATABASE_URL", "postgresql://nowhere.invalid"), ("DATABASE_DIRECT_URL", "postgresql://other.invalid")],
            *[("TLS_CERT", "/nowhere"), ("TLS_KEY", "/nowhere"), ("ARTIFACTS", "s3://elsewhere")],
        ]
        for name, value in of_others:
            monkeypatch.setenv(f"TREADLE_{name}", value)
        monkeypatch.setenv("TREADLE_ALLOWED_CATEGORIES", "mine")

        async with serve() as served:
            assert await jobs_of(served) == 0

    assert served.url.startswith("http://127.0.0.1:")
    assert served.settings.artifacts == served.settings.public_url == served.settings.database_direct_url == ""
    assert served.settings.allowed_categories == ("mine",)
