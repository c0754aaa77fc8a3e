"""What one server removes while another one comes to need it: it stays, or whoever needs it is told (G11)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
import sqlalchemy as sa
from uuid_utils import uuid7

from tests.engine.conftest import ADMIN, Shop, two_shops
from tests.servers.test_lock_order import both, wait_for
from tests.servers.test_locks import Gate, look
from tests.waiting import until
from treadle.wire.status import TERMINAL
from treadle_server.domain.flows import FlowWanted
from treadle_server.domain.limits import Caps
from treadle_server.domain.tasks import Task
from treadle_server.engine import limits as keeper
from treadle_server.engine import writing
from treadle_server.engine.commands import DeleteLimit, SetLimit, Submission, Submit
from treadle_server.engine.commands.prune import PruneTasks
from treadle_server.errors import LimitInUse, TaskNotFound
from treadle_server.store.prepared import Prepared
from treadle_server.store.tables import flows, tasks
from treadle_server.store.transaction import prune

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

DELETE = DeleteLimit(principal=ADMIN, room="@global", name="api")


SLEEPS = "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database())"


@pytest.fixture
async def shops(postgres_database: str) -> AsyncIterator[tuple[Shop, Shop]]:
    """One job, seen through two servers."""
    async with two_shops(postgres_database) as found:
        yield found


async def completed(shop: Shop) -> Task:
    """Return a task that is done."""
    worker = await shop.worker()
    await look(shop)
    [run] = await shop.claim(worker)
    return await shop.run(run)


def removal(shop: Shop, task: Task) -> Awaitable[Any]:
    """Remove a task that has ended, if nothing needs it."""
    later = shop.engine.clock.now() + timedelta(days=1)
    return shop.engine.run(PruneTasks(seqs=[task.seq], cutoffs=dict.fromkeys(TERMINAL, later)))


def of_flow(shop: Shop, flow: str) -> Awaitable[Any]:
    """Submit a task of a flow."""
    item = Submission(job_name=shop.job, payload="{}", content_hash=b"f", flow=FlowWanted(flow))
    return shop.engine.run(Submit(principal=ADMIN, room="@global", items=[item]))


async def until_it_sleeps(url: str) -> None:
    """Wait for a statement that sleeps."""
    connection = await asyncpg.connect(url)
    try:
        await until(lambda: connection.fetchval(SLEEPS), seconds=20)
    finally:
        await connection.close()


async def test_a_task_that_is_removed_is_waited_for_by_nobody(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shops
    await first.submit()
    done = await completed(first)
    # What says whether it may go has begun, and sees nothing that comes now.
    slow = prune._finding.statement.where(sa.text("pg_sleep(2) IS NOT NULL"))
    monkeypatch.setattr(prune, "_finding", Prepared(slow))

    removing = asyncio.ensure_future(removal(first, done))
    await until_it_sleeps(postgres_database)
    [late] = await asyncio.gather(wait_for(second, done), return_exceptions=True)
    step = await removing

    assert (step.removed == []) is not isinstance(late, TaskNotFound), (step.removed, late)


async def test_a_flow_stays_that_a_task_is_added_to_while_its_last_one_is_removed(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shops
    flow = str(uuid7())
    await of_flow(first, flow)
    done = await completed(first)
    gate = Gate(postgres_database)
    monkeypatch.setattr(writing, "_delete_orphans", gate.before(writing._delete_orphans))

    await both(gate, [of_flow(first, flow)], [removal(second, done)])

    async with first.engine.store.read() as connection:
        assert list(map(str, (await connection.execute(sa.select(flows.c.id))).scalars())) == [flow]
        assert list(map(str, (await connection.execute(sa.select(tasks.c.flow_id))).scalars())) == [flow]


async def test_a_limit_is_not_deleted_that_a_task_waits_for_which_runs_again_meanwhile(
    shops: tuple[Shop, Shop], postgres_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = shops
    slow = Caps(concurrency=None, rate_count=1, rate_seconds=3600, rate_burst=1)
    await first.engine.run(SetLimit(principal=ADMIN, room="@global", name="api", caps=slow))
    await first.submit(limits=[{"name": "api"}])
    done = await completed(first)
    gate = Gate(postgres_database)
    # It is decided by now that it has to wait for the next token.
    monkeypatch.setattr(keeper, "confirm_rivals", gate.before(keeper.confirm_rivals))

    running_again = asyncio.ensure_future(first.steer(done, "rerun"))
    await asyncio.wait_for(gate.reached.wait(), 20)
    gate.other = asyncio.ensure_future(second.engine.run(DELETE))
    await running_again
    with pytest.raises(LimitInUse):
        await gate.other

    assert (await first.get(done.id)).parked
