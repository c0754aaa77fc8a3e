"""Behind a real pgbouncer that pools transactions: nothing of Treadle's stays in a session (G11). nox -s pgbouncer."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.live.sockets import submit
from tests.servers.conftest import Site, open_site, until
from tests.servers.postgres import pgbouncer
from tests.servers.test_relay import end, opened
from treadle_server.errors import ValidationFailed
from treadle_server.serving.server import NotStarted
from treadle_server.testing import serve

pytestmark = [pytest.mark.anyio, pytest.mark.pgbouncer]


@pytest.fixture
def pooled_url(postgres_database: str) -> Iterator[str]:
    with pgbouncer(postgres_database) as url:
        yield url


@pytest.fixture
async def sites(pooled_url: str, postgres_database: str, tmp_path: Path) -> AsyncIterator[tuple[Site, Site]]:
    """Two servers behind the pool."""
    async with AsyncExitStack() as stack:
        first, second = [
            await open_site(stack, pooled_url, tmp_path / "data", database_direct_url=postgres_database)
            for _ in range(2)
        ]
        await until(lambda: first.relay.sender.peers_listen and second.relay.sender.peers_listen)
        yield first, second


async def test_two_servers_behind_a_pool_run_tasks_and_hear_of_each_other_g11(sites: tuple[Site, Site]) -> None:
    first, second = sites
    worker, _ = await opened(second, concurrency=20)
    client = await first.socket()
    observer = await first.socket()
    await observer.call("watch", sub="c", topic="counts")
    await observer.call("watch", sub="t", topic="tasks")

    for _ in range(15):
        tasks = await submit(client, 20, wait=True)
        claims = await worker.claims(20)
        await asyncio.gather(*(end(worker, claim) for claim in claims))
        done: set[str] = set()
        while len(done) < 20:
            done |= {one["id"] for one in (await client.pushed("result"))["tasks"]}
        assert done == {task["id"] for task in tasks}
        assert (await first.ask("GET", "/v1/stats"))["counts"]["completed"] >= 20
    assert (await first.ask("GET", "/v1/tasks"))["total"] == 300
    assert len([site for site in sites if site.served.app.state.ctx.services.leader.is_leading]) == 1


async def test_a_pool_without_a_direct_url_is_refused_with_what_to_set_g11(pooled_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotStarted, match="TREADLE_DATABASE_DIRECT_URL"):
        async with serve(pooled_url, data_dir=tmp_path):
            pytest.fail("it started")


async def test_the_leaders_line_notices_a_pool_by_itself_g11(pooled_url: str) -> None:
    from treadle_server.services.leader import Leader

    with pytest.raises(ValidationFailed, match="TREADLE_DATABASE_DIRECT_URL"):
        await Leader(pooled_url).check()
