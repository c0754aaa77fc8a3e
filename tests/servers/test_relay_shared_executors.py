"""Several servers before the executors of one broker: what one of them does, or leaves undone, the others know of."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.internal import jobs
from tests.internal.site import Claim, PaperBroker
from tests.servers.conftest import Site, open_site, until
from treadle.internal import InternalRegistry
from treadle_server.store import tables

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

LONG = {"sweeper_interval_seconds": 1000, "worker_timeout_seconds": 3000}
"""Nothing is found by looking."""


@pytest.fixture
def brokers() -> tuple[PaperBroker, PaperBroker]:
    return PaperBroker(), PaperBroker()


@pytest.fixture
async def sites(
    brokers: tuple[PaperBroker, PaperBroker], postgres_database: str, tmp_path: Path
) -> AsyncIterator[tuple[Site, Site]]:
    """Two servers that know of each other, and give out one task at a time each."""
    async with AsyncExitStack() as stack:
        registries = [InternalRegistry([jobs.add], broker=broker, concurrency=1) for broker in brokers]
        first = await open_site(stack, postgres_database, tmp_path / "data", internal=registries[0], **LONG)
        await until(first.is_there)
        second = await open_site(stack, postgres_database, tmp_path / "data", internal=registries[1], **LONG)
        await until(lambda: first.relay.sender.peers_listen and second.relay.sender.peers_listen)
        yield first, second


PATH = "/v1/rooms/lab/tasks/@internal:tasks:add"


async def execute(site: Site, claim: Claim) -> None:
    """Start and complete a claim's run at a server, as an executor does."""
    headers = {"Authorization": f"Bearer {claim['credentials']}"}
    start = {"status": "running", "run_id": claim["run_id"]}
    await site.ask("PATCH", f"/v1/tasks/{claim['id']}", json=start, headers=headers)
    await site.ask("POST", f"/v1/tasks/{claim['id']}/runs/{claim['run_id']}/completed", headers=headers)


async def test_what_an_executor_reports_to_one_server_makes_room_at_the_other(
    sites: tuple[Site, Site], brokers: tuple[PaperBroker, PaperBroker]
) -> None:
    """A server learned of it by its second look: a hundred tasks in ten seconds, however short they were."""
    first, second = sites
    claims = brokers[0].claims
    await first.ask("POST", PATH, json={"payload": {"a": 1}})
    # The other server's only place is taken too: what waits is the first one's to give out.
    await second.ask("POST", PATH, json={"payload": {"a": 2}})
    waiting = [await first.ask("POST", PATH, json={"payload": {"a": n}}) for n in (3, 4)]

    for n in range(2):
        await execute(second, claims[n])
        await until(lambda n=n: len(claims) == n + 2)

    assert [claim["id"] for claim in claims[1:]] == [task["id"] for task in waiting]


async def test_what_a_dead_server_claimed_and_did_not_dispatch_another_one_dispatches(
    sites: tuple[Site, Site], brokers: tuple[PaperBroker, PaperBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where none was started it stayed claimed until its timeout, and failed."""
    monkeypatch.setattr("treadle_server.internal.bridge.DISPATCH_SECONDS", 1000)
    first, second = sites
    dispatches = asyncio.Event()

    async def stand_still(_: Claim) -> None:
        await dispatches.wait()

    brokers[0].on_kick = stand_still
    submitted = asyncio.create_task(first.ask("POST", PATH, json={"payload": {"a": 1}}))
    await until(lambda: brokers[0].claims)
    bridge = second.served.app.state.ctx.internal

    await bridge.turn()
    assert not brokers[1].claims
    async with second.engine.store.write() as tx:
        seen_at = second.engine.store.clock.now() - timedelta(seconds=31)
        dead = {"id": uuid4(), "said": 0, "wants_each": False, "started_at": seen_at, "seen_at": seen_at}
        await tx.connection.execute(sa.insert(tables.servers).values(**dead))
    await bridge.turn()
    await until(lambda: brokers[1].claims)
    await bridge.turn()

    dispatches.set()
    task = await submitted
    assert [(claim["id"], claim["run_id"]) for claim in brokers[1].claims] == [(task["id"], 0)]
