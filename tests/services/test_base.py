"""What runs beside the requests: each service does its turn, survives its failures, and ends when it is told."""

import asyncio
from datetime import timedelta
from itertools import pairwise

import pytest

from tests.conftest import FakeClock
from tests.timeless import in_no_time
from treadle.wire.status import Status
from treadle_server.engine.commands import Beat
from treadle_server.errors import StoreUnavailable
from treadle_server.services.base import Health, Service, supervise
from treadle_server.services.poller import Poller
from treadle_server.services.promoter import Promoter
from treadle_server.services.run import run_services
from treadle_server.services.sweeper import Sweeper

pytestmark = pytest.mark.anyio


@pytest.fixture
def sweeper(shop) -> Sweeper:
    return Sweeper(shop.engine, interval=5, worker_timeout=60)


async def test_the_sweeper_requeues_what_a_silent_worker_held_g8(shop, clock, sweeper) -> None:
    worker = await shop.worker()
    await shop.submit(options={"max_requeues": 1})
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await sweeper.turn()

    for _ in range(13):
        clock.advance(5)
        await sweeper.turn()

    task = await shop.get(claimed.id)
    assert (task.status, task.requeue_count) == (Status.PENDING, 1)


async def test_after_an_outage_every_lease_is_stamped_anew_before_any_expires_e8(shop, clock, sweeper) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    clock.advance(3600)  # the server was down for longer than the lease

    await sweeper.turn()

    task = await shop.get(claimed.id)
    assert (task.status, task.taken_until) == (Status.RUNNING, clock.now() + task.lease)
    clock.advance(5)
    await sweeper.turn()
    assert (await shop.get(claimed.id)).status is Status.RUNNING
    done = await shop.report(claimed, "completed")
    assert done.status is Status.COMPLETED


async def test_an_outage_of_the_sweeper_takes_no_lease_from_anybody_e8(shop, clock, sweeper) -> None:
    """The process stood still: nobody could beat meanwhile."""
    worker = await shop.worker()
    await sweeper.turn()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    clock.advance(3600)

    await sweeper.turn()

    assert (await shop.get(claimed.id)).taken_until == clock.now() + claimed.lease


async def test_more_deadlines_than_one_command_takes_are_missed_in_one_sweep_c11(
    shop, clock, sweeper, monkeypatch
) -> None:
    for name in ("engine.commands.sweeps", "services.sweeper"):
        monkeypatch.setattr(f"treadle_server.{name}.MOST", 2)
    await sweeper.turn()
    tasks = await shop.submit(5, deadline=clock.now() + timedelta(seconds=1))
    clock.advance(2)

    await sweeper.turn()

    assert [(await shop.get(task.id)).status for task in tasks] == [Status.FAILED] * 5


async def test_a_lease_that_is_stamped_anew_is_no_shorter_than_a_heartbeat_makes_it_e8(shop, clock, sweeper) -> None:
    worker = await shop.worker()
    await shop.submit(options={"lease_seconds": 10, "heartbeat_increment": 90})
    [claimed] = await shop.claim(worker)

    await sweeper.turn()

    assert ((await shop.get(claimed.id)).taken_until - clock.now()).total_seconds() == 90


@pytest.mark.parametrize("jump", [3600, -3600])
async def test_a_clock_that_jumps_an_hour_takes_no_run_from_its_worker_l5(shop, clock, sweeper, jump) -> None:
    worker = await shop.worker()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    await sweeper.turn()

    clock.advance(5)
    clock.jump(jump)
    await sweeper.turn()
    await shop.engine.run(Beat(principal=shop.principal, worker_id=worker))
    clock.advance(5)
    await sweeper.turn()

    task = await shop.get(claimed.id)
    assert task.status is Status.RUNNING
    assert task.taken_until <= clock.now() + task.lease


@pytest.mark.parametrize("jump", [-60, 60])
async def test_a_clock_that_jumps_and_back_between_two_sweeps_takes_no_run_from_its_worker_l5(
    shop, clock, sweeper, jump
) -> None:
    """What was claimed in between has a lease that ends by what the clock showed then."""
    worker = await shop.worker()
    await sweeper.turn()
    clock.advance(1)
    clock.jump(jump)
    await shop.submit(options={"lease_seconds": 40, "start_timeout": 40})
    [claimed] = await shop.claim(worker)
    clock.advance(1)
    clock.jump(-jump)

    await sweeper.turn()

    task = await shop.get(claimed.id)
    assert (task.status, task.taken_until) == (Status.CLAIMED, clock.now() + task.lease)


async def test_a_sweeper_that_takes_over_stamps_every_lease_anew_before_any_expires_g11(shop, clock, sweeper) -> None:
    """The server that led is gone, and the workers that it had are on their way to another."""
    worker = await shop.worker()
    await sweeper.turn()
    await shop.submit()
    [claimed] = await shop.claim(worker)
    await shop.report(claimed, "started")
    for _ in range(12):
        clock.advance(5)
        sweeper.take_over()

        await sweeper.turn()

    assert (await shop.get(claimed.id)).taken_until == clock.now() + claimed.lease
    clock.advance(5)
    await sweeper.turn()
    assert (await shop.report(claimed, "completed")).status is Status.COMPLETED


async def test_a_deadline_that_passes_fails_what_is_open_c11(shop, clock, sweeper) -> None:
    from datetime import timedelta

    worker = await shop.worker()
    await sweeper.turn()
    waiting, running = await shop.submit(2, deadline=clock.now() + timedelta(seconds=5))
    await shop.claim(worker)
    clock.advance(5)

    await sweeper.turn()

    for task in (waiting, running):
        now = await shop.get(task.id)
        assert (now.status, now.reason) == (Status.FAILED, "deadline-exceeded")


async def test_the_promoter_sleeps_exactly_until_the_next_task_is_due_e1(shop, clock) -> None:
    promoter = Promoter(shop.engine)
    assert await promoter.turn() == 1.0
    await shop.submit(delay=0.25)
    assert await promoter.turn() == 0.25

    clock.advance(0.25)
    await promoter.turn()

    worker = await shop.worker()
    assert len(await shop.claim(worker)) == 1


async def test_an_earlier_task_that_comes_later_shortens_the_promoters_sleep_e1(shop) -> None:
    promoter = Promoter(shop.engine)
    await shop.submit(delay=60)
    await promoter.turn()
    await promoter.wait(0)
    sleeping = asyncio.ensure_future(promoter.wait(60))

    await shop.submit(delay=0.1)

    async with asyncio.timeout(20):
        await sleeping


async def test_the_poll_finds_what_no_event_told_of(shop) -> None:
    worker = await shop.worker()
    assert await shop.claim(worker) == []
    await shop.submit()
    shop.engine.dispatcher._ready.clear()  # the wake-up is lost
    assert await shop.claim(worker) == []
    waiting = asyncio.ensure_future(shop.engine.claims.claim(shop.principal, worker, wait=20))
    for _ in range(2):
        await shop.submit(delay=3600)  # when the second is answered, the claim waits

    await Poller(shop.engine).turn()

    async with asyncio.timeout(20):
        assert len(await waiting) == 1


class Failing(Service):
    """A service whose first turns fail."""

    name = "failing"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures
        self.turned_at: list[float] = []
        self.good = asyncio.Event()

    async def turn(self) -> float:
        self.turned_at.append(asyncio.get_running_loop().time())
        if self.failures:
            self.failures -= 1
            self.wake()  # as what broke does, and what it wants of others
            raise StoreUnavailable("the database is gone")
        self.good.set()
        return 60


def test_a_service_that_fails_is_tried_again_later_and_later_and_its_health_tells(clock: FakeClock) -> None:
    service, health = Failing(5), Health("failing")

    async def run() -> None:
        running = asyncio.ensure_future(supervise(service, health, clock))
        await service.good.wait()
        await asyncio.sleep(0)
        running.cancel()

    in_no_time(run())

    assert health.state == "ok"
    assert health.last_good_at == clock.now()
    waits = [after - before for before, after in pairwise(service.turned_at)]
    assert len(waits) == 5
    assert waits[4] > waits[0] >= 0.25


def test_a_failing_service_is_not_well_and_not_tried_before_its_time(clock: FakeClock) -> None:
    service, health = Failing(1), Health("failing")

    async def run() -> None:
        running = asyncio.ensure_future(supervise(service, health, clock))
        for _ in range(20):
            await asyncio.sleep(0.01)
            service.wake()
        running.cancel()

    in_no_time(run())

    assert (health.failures, health.state) == (1, "the database is gone")
    assert len(service.turned_at) == 1


def test_what_nobody_foresaw_is_told_to_the_log_alone_for_everybody_may_ask_how_a_service_does(
    clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(Service):
        name = "broken"

        async def turn(self) -> float:
            raise ValueError("Key (name)=(the customer's) already exists")

    health = Health("broken")

    async def run() -> None:
        running = asyncio.ensure_future(supervise(Broken(), health, clock))
        await asyncio.sleep(0.01)
        running.cancel()

    in_no_time(run())

    assert health.state == "ValueError: the server's log has the traceback"
    assert "the customer's" in caplog.text


async def test_services_start_and_stop_many_times_without_a_trace(shop) -> None:
    before = len(asyncio.all_tasks())
    for _ in range(20):
        async with run_services(shop.engine, sweeper_interval=0.01, worker_timeout=60) as services:
            assert "sweeper" in services.health
    assert len(asyncio.all_tasks()) == before


async def test_running_services_put_a_due_task_into_the_queue_by_themselves_e1(store) -> None:
    from tests.engine.conftest import Shop
    from treadle_server.engine.engine import Engine

    engine = Engine(store)
    shop = Shop(engine)
    async with engine.running(), run_services(engine):
        await shop.register()
        worker = await shop.worker()
        [task] = await shop.submit(delay=0.2)
        async with asyncio.timeout(20):
            [claimed] = await engine.claims.claim(shop.principal, worker, wait=9)
    late = (claimed.claimed_at - task.due_at).total_seconds()
    assert claimed.id == task.id
    assert late >= 0
