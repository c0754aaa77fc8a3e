"""Row E8, and L5's outage: a server that comes back on the same database blames nobody for its absence."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from tests.conftest import FakeClock
from tests.promises.conftest import _by_hand
from tests.promises.rig import Rig, Transport, rigged
from tests.promises.words import JOB, run_of
from treadle_server.testing import serve

Serving = Callable[[], AbstractAsyncContextManager[Rig]]


@pytest.fixture
def serving(
    database_url: str, transport: Transport, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Serving:
    """Starts a server on the same database each time."""
    monkeypatch.setattr("treadle_server.app.run_services", _by_hand)

    @asynccontextmanager
    async def start() -> AsyncIterator[Rig]:
        async with (
            serve(database_url, clock=clock, data_dir=tmp_path / "data") as served,
            rigged(served, clock, transport) as rig,
        ):
            yield rig

    return start


async def test_after_an_outage_longer_than_all_leases_who_beats_keeps_its_run_and_others_lose_it_in_one_lease_e8(
    serving: Serving, clock: FakeClock
):
    async with serving() as rig:
        await rig.root.register_job()
        present, absent = [await rig.root.register_worker(JOB) for _ in range(2)]
        for _ in range(2):
            await rig.root.submit(max_requeues=1)
        kept, lost = await present.begin(), await absent.begin()
    clock.advance(3600)

    async with serving() as rig:
        rig.advance(40)
        beaten = await rig.root.http.patch(f"/v1/workers/{present.id}", json={"tasks": [run_of(kept)]})
        await rig.sweep()
        assert [one["task_id"] for one in beaten.json()["taken_until"]] == [kept["id"]]
        assert [(await rig.root.get(run))["status"] for run in (kept, lost)] == ["running", "running"]

        rig.advance(21)
        await rig.sweep()

        assert [(await rig.root.get(run))["status"] for run in (kept, lost)] == ["running", "pending"]


async def test_what_was_queued_before_a_restart_keeps_its_order_and_is_claimed_after_it_e8(serving: Serving):
    async with serving() as rig:
        await rig.root.register_job()
        tasks = [await rig.root.submit(priority=priority) for priority in (0, 1, 0)]

    async with serving() as rig:
        worker = await rig.root.register_worker(JOB)
        claimed = []
        for _ in tasks:
            run = await worker.begin()
            await worker.complete(run)
            claimed.append(run["id"])

    assert claimed == [tasks[1]["id"], tasks[0]["id"], tasks[2]["id"]]
