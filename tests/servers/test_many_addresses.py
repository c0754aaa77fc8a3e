"""`TREADLE_URL` names several servers: clients and workers go on at another when theirs dies (G11, T8)."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.chaos.processes import free_port
from tests.servers.conftest import open_site
from tests.waiting import until
from tests.worker.proxies import Proxy, proxy_to
from treadle import Client, Context, Worker, task
from treadle.transport.addresses import shuffled

pytestmark = pytest.mark.anyio

gates: dict[int, asyncio.Event] = {}


@task(max_requeues=0, max_retries=0)
async def waits_for_its_gate(ctx: Context, n: int) -> int:
    await gates[n].wait()
    return ctx.run_id


async def gone(proxy: Proxy) -> None:
    """Let the server behind the proxy be dead, for all who came through it."""
    proxy.is_down = True
    proxy.cut()


@pytest.mark.postgres
@pytest.mark.parametrize("dies", [0, 1])
async def test_worker_and_client_go_on_at_another_server_when_theirs_dies_g11_t8(
    postgres_database: str, tmp_path: Path, dies: int
) -> None:
    """Whichever it is: what runs goes on in the same run, and its result reaches who waits for it."""
    gates.clear()
    gates.update({n: asyncio.Event() for n in range(4)})
    async with AsyncExitStack() as stack:
        sites = [await open_site(stack, postgres_database, tmp_path / "data") for _ in range(2)]
        proxies = [await stack.enter_async_context(proxy_to(site.served.url)) for site in sites]
        urls = ",".join(proxy.url for proxy in proxies)
        token = sites[0].served.token
        worker = Worker([waits_for_its_gate], url=urls, token=token, concurrency=2, drain_grace=1)
        group = await stack.enter_async_context(asyncio.TaskGroup())
        working = group.create_task(worker.run_async())
        async with Client(urls, token) as client:
            handles = await client.submit_many([waits_for_its_gate.bind(n) for n in range(4)])
            results = [asyncio.ensure_future(handle.result(timeout=60)) for handle in handles]

            async def running() -> int:
                return [await handle.status() for handle in handles].count("running")

            await until(running, lambda count: count >= 2, seconds=20)

            await gone(proxies[dies])
            for gate in gates.values():
                gate.set()

            assert await asyncio.gather(*results) == [0, 0, 0, 0]
        worker.stop()
        await working


async def test_an_address_where_nobody_listens_is_passed_over_g11(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        site = await open_site(stack, f"sqlite:///{tmp_path / 'treadle.db'}", tmp_path / "data")
        dead = [f"http://127.0.0.1:{free_port()}" for _ in range(3)]
        for _ in range(4):
            async with Client(",".join([*dead, site.served.url]), site.served.token) as client:
                assert (await client.whoami()).superuser
                assert await client.call("ping")


def test_servers_share_the_connections_for_each_begins_with_another_g11() -> None:
    urls = ("http://a", "http://b", "http://c")

    orders = {tuple(shuffled(urls)) for _ in range(500)}

    assert len(orders) == 6
    assert {tuple(sorted(order)) for order in orders} == {urls}
