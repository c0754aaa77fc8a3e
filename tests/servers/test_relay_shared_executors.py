"""Several servers before the executors of one broker: each may report to any of them, and all have room again."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.internal import jobs
from tests.internal.site import Claim, PaperBroker
from tests.servers.conftest import Site, open_site, until
from treadle.internal import InternalRegistry

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
    path = "/v1/rooms/lab/tasks/@internal:tasks:add"
    claims = brokers[0].claims
    await first.ask("POST", path, json={"payload": {"a": 1}})
    # The other server's only place is taken too: what waits is the first one's to give out.
    await second.ask("POST", path, json={"payload": {"a": 2}})
    waiting = [await first.ask("POST", path, json={"payload": {"a": n}}) for n in (3, 4)]

    for n in range(2):
        await execute(second, claims[n])
        await until(lambda n=n: len(claims) == n + 2)

    assert [claim["id"] for claim in claims[1:]] == [task["id"] for task in waiting]
