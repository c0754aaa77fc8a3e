"""A disk on which nothing more can be written: who asks whether the server is ready is told so."""

import asyncio
import re
import resource
from pathlib import Path

import httpx
import pytest

from tests.chaos.processes import Process, ServerProcess, running_server

pytestmark = pytest.mark.anyio


def _limit_files(server: ServerProcess, size: int) -> None:
    """Have the system refuse the server to write any file beyond its first `size` bytes."""
    assert server._process is not None
    resource.prlimit(server._process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


async def _until_ready(client: httpx.AsyncClient, status: int) -> dict[str, str]:
    async with asyncio.timeout(30):
        while (answer := await client.get("/readyz")).status_code != status:
            await asyncio.sleep(0.05)
    services: dict[str, str] = answer.json()["services"]
    return services


async def _doctor(server: ServerProcess) -> tuple[int, str]:
    process = Process(
        ["doctor"], server.directory / "doctor.log", {"TREADLE_URL": server.url, "TREADLE_TOKEN": server.token}
    )
    process.start()
    async with asyncio.timeout(60):
        code = await process.ended()
    said = process.log.read_text()
    process.log.unlink()
    return code, said


async def test_a_server_that_can_write_nothing_is_not_ready_and_the_doctor_says_why(tmp_path: Path) -> None:
    submit, large = "/v1/rooms/lab/tasks/lab:tasks:noop", {"payload": {"text": "x" * 100_000}}
    with running_server(tmp_path, f"sqlite:///{tmp_path / 'treadle.db'}") as server:
        async with httpx.AsyncClient(base_url=server.url, headers=server.headers, timeout=30) as client:
            job = {"category": "tasks", "name": "noop", "schema": {}, "retain": True}
            assert (await client.put("/v1/rooms/lab/jobs", json=job)).status_code == 201
            await _until_ready(client, 200)
            _limit_files(server, (tmp_path / "treadle.db-wal").stat().st_size)

            assert (await client.post(submit, json=large)).status_code == 503

            assert "disk" in (await _until_ready(client, 503))["store"]
            code, said = await _doctor(server)
            assert code == 1
            assert re.search(r"fail ready .*not well: .*store: the database's disk", said)
            _limit_files(server, resource.RLIM_INFINITY)
            await _until_ready(client, 200)
            assert (await client.post(submit, json=large)).status_code == 202
            assert (await _doctor(server))[0] == 0
