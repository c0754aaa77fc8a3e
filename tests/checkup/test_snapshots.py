"""Snapshots that were kept open for so long that nothing old can be cleared away."""

import asyncio
import os
from pathlib import Path

import asyncpg
import pytest

from tests.checkup.conftest import Examine
from treadle.wire.findings import Finding
from treadle_server.checkup import snapshots

on_postgres = pytest.mark.parametrize(
    "spoilt_url", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True
)


@on_postgres
async def test_a_long_transaction_is_found_with_what_ends_it(
    spoilt_url: str, examined: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LONG", 0)
    connection = await asyncpg.connect(spoilt_url, server_settings={"application_name": "report"})
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tasks")

        found = (await asyncio.to_thread(examined))["snapshots"]
        number = connection.get_server_pid()
    finally:
        await connection.close()

    [finding] = [one for one in found if "report" in one.detail]
    assert finding.grade == "warn"
    assert finding.advice == f"end it: SELECT pg_terminate_backend({number})"


@on_postgres
async def test_a_short_one_is_not(spoilt_url: str, examined: Examine) -> None:
    connection = await asyncpg.connect(spoilt_url)
    try:
        await connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM tasks")

        found = (await asyncio.to_thread(examined))["snapshots"]
    finally:
        await connection.close()

    assert [one.grade for one in found] == ["ok"]


@on_postgres
async def test_a_replication_slot_that_nobody_reads_is_found(spoilt_url: str, examined: Examine) -> None:
    connection = await asyncpg.connect(spoilt_url)
    name = f"treadle_{os.getpid()}"
    try:
        await connection.execute("SELECT pg_create_physical_replication_slot($1, true)".replace("$1", f"'{name}'"))

        found = (await asyncio.to_thread(examined))["snapshots"]
    finally:
        await connection.execute(f"SELECT pg_drop_replication_slot('{name}')")
        await connection.close()

    assert any(name in one.detail and one.grade == "warn" for one in found)


def test_a_log_of_sqlite_that_grows_is_found(tmp_path: Path) -> None:
    log = tmp_path / "treadle.db-wal"
    with log.open("wb") as file:
        file.truncate(snapshots.LARGE_LOG - 1)
    assert [one.grade for one in snapshots.look_at_log(tmp_path / "treadle.db") if isinstance(one, Finding)] == ["ok"]
    os.truncate(log, snapshots.LARGE_LOG)

    [finding] = snapshots.look_at_log(tmp_path / "treadle.db")

    assert isinstance(finding, Finding)
    assert (finding.grade, "256 MB" in finding.detail) == ("warn", True)
