"""Two servers that decide about the same at once: the second waits until the first has committed (G5, G11)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

from tests.engine.conftest import Shop, two_shops
from tests.waiting import until
from treadle_server.store.base import Tx
from treadle_server.store.transaction.heads import waiting_lanes

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

WAITS = "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE NOT granted AND datname = $1"


@pytest.fixture
async def shops(postgres_database: str) -> AsyncIterator[tuple[Shop, Shop]]:
    """One job, seen through two servers."""
    async with two_shops(postgres_database) as found:
        yield found


class Gate:
    """Stops a transaction in its midst; it goes on when another one waits for it, or has not waited."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.reached = asyncio.Event()
        self.other: asyncio.Future[Any] | None = None

    async def pass_through(self) -> None:
        self.reached.set()
        connection = await asyncpg.connect(self._url)
        try:
            name = await connection.fetchval("SELECT current_database()")

            async def waits_or_is_done() -> bool:
                other = self.other
                return other is not None and (other.done() or await connection.fetchval(WAITS, name))

            await until(waits_or_is_done, seconds=20)
        finally:
            await connection.close()

    def before(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with the gate before it, which is passed once."""

        async def gated(*arguments: Any) -> Any:
            if not self.reached.is_set():
                await self.pass_through()
            return await function(*arguments)

        return gated


async def look(shop: Shop) -> None:
    """Do what the poller does."""
    async with shop.engine.store.read() as connection:
        shop.engine.wake(await waiting_lanes(Tx(connection, "postgresql")))


async def test_two_servers_do_not_give_one_worker_more_than_it_can_take_e5_g11(
    shops: tuple[Shop, Shop], postgres_database: str
) -> None:
    first, second = shops
    worker = await first.worker(concurrency=1)
    await first.submit(2)
    await look(second)
    gate = Gate(postgres_database)
    dispatcher = first.engine.dispatcher
    dispatcher._claim = gate.before(dispatcher._claim)  # type: ignore[method-assign]

    one = asyncio.ensure_future(first.claim(worker, 2))
    await asyncio.wait_for(gate.reached.wait(), 20)
    gate.other = asyncio.ensure_future(second.claim(worker, 2))

    assert sorted([len(await one), len(await gate.other)]) == [0, 1]


async def test_a_task_that_comes_while_its_target_is_freed_elsewhere_is_not_left_blocked_g5_g11(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shops
    worker = await first.worker()
    await first.submit(target="printer")
    [run] = await first.claim(worker)
    await first.report(run, "started")
    gate = Gate(postgres_database)
    monkeypatch.setattr("treadle_server.engine.writing._delete_orphans", gate.before(_nothing))

    ending = asyncio.ensure_future(first.report(run, "completed"))
    await asyncio.wait_for(gate.reached.wait(), 20)
    gate.other = asyncio.ensure_future(second.submit(target="printer"))
    await ending
    [late] = await gate.other

    await look(first)
    assert [task.id for task in await first.claim(worker)] == [late.id]


async def _nothing(_world: object) -> None:
    """Look for no orphans: the job is retained."""
