"""A database that may be spoilt, and an examination by its settings."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import copyfile

import asyncpg
import pytest

from tests.conftest import _KINDS, _database_of, _postgres_database
from treadle.doctor.examination import examine
from treadle.wire.findings import Finding
from treadle_server.checkup.checks import checks

Examine = Callable[[], dict[str, list[Finding]]]


@pytest.fixture(params=_KINDS)
def spoilt_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an up-to-date database of each kind that no other test gets."""
    if request.param == "sqlite":
        path = tmp_path / "data" / "treadle.db"
        path.parent.mkdir(mode=0o700)
        copyfile(request.getfixturevalue("sqlite_template"), path)
        path.chmod(0o600)
        yield f"sqlite:///{path}"
        return
    url = request.getfixturevalue("postgres_url")
    with _postgres_database(url, request.getfixturevalue("postgres_template")) as name:
        yield _database_of(url, name)


@pytest.fixture
def examined(spoilt_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Examine the machine and that database; what was found, by check."""
    monkeypatch.setenv("TREADLE_DATABASE_URL", spoilt_url)
    monkeypatch.setenv("TREADLE_DATA_DIR", str(tmp_path / "data"))

    def examined() -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {}
        for finding in asyncio.run(examine(checks())):
            found.setdefault(finding.check, []).append(finding)
        return found

    return examined


def execute(url: str, *statements: str) -> None:
    """Change the database by hand."""
    if url.startswith("sqlite"):
        connection = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
        for statement in statements:
            connection.execute(statement)
        connection.close()
        return

    async def executed() -> None:
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    asyncio.run(executed())
