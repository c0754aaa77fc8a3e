"""Work starts by event, at once; and where every event is lost, the poll behind them starts it all the same.

No service runs in these tests but the ones that they turn themselves, so what is handed out without a turn of the
poller was handed out by event.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from sqlalchemy import update

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN, Shop
from treadle.wire.ids import WorkerId
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import (
    Beat,
    Edit,
    ExpireLeases,
    LinkJobs,
    PatchJob,
    PromoteDue,
    ReleaseHolds,
    RemoveWorker,
)
from treadle_server.engine.dispatch.slots import WorkerSlot
from treadle_server.engine.engine import Engine
from treadle_server.services.base import Health, supervise
from treadle_server.services.poller import Poller
from treadle_server.services.promoter import Promoter
from treadle_server.store.tables import workers

pytestmark = pytest.mark.anyio

JOB = "@global:tasks:noop"
Happening = Callable[[], Awaitable[object]]


@dataclass
class Scene:
    """A shop in which something is about to happen, and workers that wait for it."""

    shop: Shop
    clock: FakeClock
    patient: list["asyncio.Future[list[Task]]"] = field(default_factory=list)
    given: list[Task] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def begin(self, **details: Any) -> Task:
        """Submit a task, and let a worker that does not wait start it."""
        await self.shop.submit(**details)
        [task] = await self.shop.claim(await self.shop.worker())
        return await self.shop.report(task, "started")

    async def sit(
        self, *, concurrency: int = 8, worker: WorkerId | None = None, jobs: Collection[int] = (1,)
    ) -> WorkerId:
        """Let a worker on the socket wait, which serves the jobs of these numbers."""
        worker = worker or await self.shop.worker()
        slot = WorkerSlot(worker, frozenset(jobs), None, concurrency, 0, 0, deliver=self._deliver)
        self.shop.engine.open_slot(slot)
        return worker

    async def ask(self, worker: WorkerId) -> None:
        """Let a claim over HTTP wait."""
        claim = self.shop.engine.claims.claim(ADMIN, worker, most=8, wait=20)
        self.patient.append(asyncio.ensure_future(claim))
        self.patient[-1].add_done_callback(lambda done: self._deliver(done.result()))
        await self.settle()

    def _deliver(self, tasks: list[Task]) -> None:
        self.given += tasks
        self.arrived.set()

    async def settle(self) -> None:
        """Let the writer do what it has to do by now."""
        for _ in range(3):
            await self.shop.engine.run(LinkJobs(principal=ADMIN, worker_id=await self._nobody(), job_names=[]))

    async def _nobody(self) -> WorkerId:
        if not self.shop.workers:
            self.shop.workers.append(await self.shop.worker("@global:tasks:nothing"))
        return self.shop.workers[0]

    async def came(self) -> list[Task]:
        """Wait until a task was handed out."""
        async with asyncio.timeout(20):
            await self.arrived.wait()
        return self.given

    def drop_every_event(self) -> None:
        """Lose what wakes the claims from now on: each hint of a commit, of a slot and of a claim."""
        engine, dispatcher = self.shop.engine, self.shop.engine.dispatcher
        admit, apply, commit = engine.fast_submits.submit, engine._apply, engine._commit
        open_slot, wait, release = dispatcher.open_slot, dispatcher.wait, dispatcher.release

        def forget() -> None:
            dispatcher._has_changed = False
            dispatcher._unseen_jobs.clear()

        async def deaf_admit(work, batch):
            new = await admit(work, batch)
            work.batch.lanes.clear()
            work.woken.clear()
            return new

        async def deaf_apply(work, batch):
            await apply(work, batch)
            work.batch.lanes.clear()
            work.woken.clear()

        def deaf_release(keys, at):
            news = dispatcher._has_changed
            freed = release(keys, at)
            dispatcher._has_changed = news
            return freed

        async def deaf_commit(batch, *, fast):
            done = await commit(batch, fast=fast)
            forget()
            return done

        engine.fast_submits.submit, engine._apply, engine._commit = deaf_admit, deaf_apply, deaf_commit
        dispatcher.look_again, dispatcher.release = lambda: None, deaf_release
        dispatcher.open_slot = lambda slot: (open_slot(slot), forget())
        dispatcher.wait = lambda waiting: (wait(waiting), forget())
        forget()


async def a_task_is_submitted(scene: Scene) -> Happening:
    return scene.shop.submit


async def a_task_is_due(scene: Scene) -> Happening:
    await scene.shop.submit(delay=10)
    scene.clock.advance(10)
    return lambda: scene.shop.engine.run(PromoteDue())


async def a_target_is_freed_by_a_completion(scene: Scene) -> Happening:
    first = await scene.begin(target="cam")
    await scene.shop.submit(target="cam")
    return lambda: scene.shop.report(first, "completed")


async def a_target_is_freed_by_hand(scene: Scene) -> Happening:
    first = await scene.begin(target="cam")
    await scene.shop.submit(target="cam")
    await scene.shop.report(first, "failed", error="boom")
    return lambda: scene.shop.steer(first, "resolve")


async def a_target_is_freed_by_an_edit(scene: Scene) -> Happening:
    await scene.begin(target="cam")
    [waiting] = await scene.shop.submit(target="cam")
    return lambda: scene.shop.engine.run(Edit(principal=ADMIN, task_id=waiting.id, changes={"target": "other"}))


async def a_queue_is_resumed(scene: Scene) -> Happening:
    await scene.shop.submit()
    await scene.shop.engine.run(PatchJob(principal=ADMIN, job_name=JOB, room="@global", paused=True))
    return lambda: scene.shop.engine.run(PatchJob(principal=ADMIN, job_name=JOB, room="@global", paused=False))


async def a_paused_task_is_resumed(scene: Scene) -> Happening:
    [task] = await scene.shop.submit()
    await scene.shop.steer(task, "pause")
    return lambda: scene.shop.steer(task, "resume")


async def a_settled_task_is_rerun(scene: Scene) -> Happening:
    task = await scene.begin()
    await scene.shop.report(task, "completed")
    return lambda: scene.shop.steer(task, "rerun")


async def a_scheduled_task_is_edited_to_be_due_now(scene: Scene) -> Happening:
    [task] = await scene.shop.submit(delay=60)
    changes = {"scheduled_at": scene.clock.now()}
    return lambda: scene.shop.engine.run(Edit(principal=ADMIN, task_id=task.id, changes=changes))


async def a_hold_ends_because_its_code_stopped(scene: Scene) -> Happening:
    first = await scene.begin(target="cam")
    await scene.shop.submit(target="cam")
    await scene.shop.steer(first, "cancel")
    return lambda: scene.shop.report(first, "stopped")


async def a_hold_ends_with_its_lease(scene: Scene) -> Happening:
    first = await scene.begin(target="cam")
    await scene.shop.submit(target="cam")
    await scene.shop.steer(first, "cancel")
    scene.clock.advance(60)
    return lambda: scene.shop.engine.run(ReleaseHolds())


async def a_hold_of_the_tasks_own_last_run_ends(scene: Scene) -> Happening:
    task = await scene.begin()
    await scene.shop.steer(task, "cancel")
    await scene.shop.steer(task, "rerun")
    return lambda: scene.shop.report(task, "stopped")


async def a_run_is_requeued_by_its_worker(scene: Scene) -> Happening:
    task = await scene.begin(options={"max_requeues": 1})
    return lambda: scene.shop.report(task, "exception", reason="worker-shutdown")


async def a_run_is_requeued_because_its_lease_ended(scene: Scene) -> Happening:
    await scene.begin(options={"max_requeues": 1})
    scene.clock.advance(60)
    return lambda: scene.shop.engine.run(ExpireLeases())


async def a_run_is_requeued_because_its_worker_left(scene: Scene) -> Happening:
    task = await scene.begin(options={"max_requeues": 1})
    return lambda: scene.shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=task.worker_id))


async def a_run_is_handed_back(scene: Scene) -> Happening:
    await scene.shop.submit()
    [task] = await scene.shop.claim(await scene.shop.worker())
    return lambda: scene.shop.report(task, "returned")


EVENTS = [
    a_task_is_submitted,
    a_task_is_due,
    a_target_is_freed_by_a_completion,
    a_target_is_freed_by_hand,
    a_target_is_freed_by_an_edit,
    a_queue_is_resumed,
    a_paused_task_is_resumed,
    a_settled_task_is_rerun,
    a_scheduled_task_is_edited_to_be_due_now,
    a_hold_ends_because_its_code_stopped,
    a_hold_ends_with_its_lease,
    a_hold_of_the_tasks_own_last_run_ends,
    a_run_is_requeued_by_its_worker,
    a_run_is_requeued_because_its_lease_ended,
    a_run_is_requeued_because_its_worker_left,
    a_run_is_handed_back,
]


@pytest.fixture
async def scene(shop: Shop, clock: FakeClock) -> Scene:
    await shop.register("nothing")
    return Scene(shop, clock)


async def _wait_in(scene: Scene, way: str) -> None:
    if way == "socket":
        await scene.sit()
        await scene.settle()
    else:
        await scene.ask(await scene.shop.worker())


@pytest.mark.parametrize("way", ["socket", "http"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
async def test_a_waiting_worker_is_given_work_by_event_when(scene, event, way) -> None:
    happen = await event(scene)
    await _wait_in(scene, way)
    assert scene.given == []

    await happen()

    assert len(await scene.came()) == 1


@pytest.mark.parametrize("way", ["socket", "http"])
@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
async def test_the_poll_alone_gives_a_waiting_worker_work_when(scene, event, way) -> None:
    happen = await event(scene)
    scene.drop_every_event()
    await _wait_in(scene, way)
    await happen()
    await scene.settle()
    assert scene.given == []  # or this test would prove nothing

    await Poller(scene.shop.engine).turn()

    assert len(await scene.came()) == 1


async def _full(scene: Scene) -> Task:
    """Let a worker be full, with a task that waits for room."""
    await scene.sit(concurrency=1)
    await scene.shop.submit(2)
    [task] = await scene.came()
    scene.arrived.clear()
    await scene.settle()
    assert len(scene.given) == 1
    return await scene.shop.report(task, "started")


ENDINGS = ["completed", "failed", "paused"]


@pytest.mark.parametrize("ending", ENDINGS)
async def test_room_on_a_full_worker_is_filled_by_event(scene, ending) -> None:
    task = await _full(scene)

    await scene.shop.report(task, ending)

    assert len(await scene.came()) == 2


@pytest.mark.parametrize("ending", ENDINGS)
async def test_the_poll_alone_fills_room_on_a_full_worker(scene, ending) -> None:
    task = await _full(scene)
    scene.drop_every_event()
    await scene.shop.report(task, ending)
    await scene.settle()
    assert len(scene.given) == 1

    await Poller(scene.shop.engine).turn()

    assert len(await scene.came()) == 2


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_a_new_worker_is_given_what_waits_by_event(scene, way) -> None:
    await scene.shop.submit()

    await _wait_in(scene, way)

    assert len(await scene.came()) == 1


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_the_poll_alone_gives_a_new_worker_what_waits(scene, way) -> None:
    await scene.shop.submit()
    scene.drop_every_event()
    await _wait_in(scene, way)
    assert scene.given == []

    await Poller(scene.shop.engine).turn()

    assert len(await scene.came()) == 1


@pytest.mark.parametrize("way", ["socket", "http"])
async def test_after_a_restart_a_worker_is_given_what_waited_before_by_event(store, clock, way) -> None:
    async with Engine(store, clock=clock).running() as before:
        await Shop(before).register()
        await Shop(before).submit()

    async with Engine(store, clock=clock).running() as after:
        scene = Scene(Shop(after), clock)
        await scene.shop.register("nothing")
        await _wait_in(scene, way)

        assert len(await scene.came()) == 1


async def test_after_a_restart_a_claim_that_does_not_wait_finds_what_waited_before(store, clock) -> None:
    async with Engine(store, clock=clock).running() as before:
        await Shop(before).register()
        worker = await Shop(before).worker()
        await Shop(before).submit()

    async with Engine(store, clock=clock).running() as after:
        assert len(await Shop(after).claim(worker)) == 1


async def test_a_claim_that_does_not_wait_finds_by_the_poll_what_no_event_told_of(scene) -> None:
    worker = await scene.shop.worker()
    assert await scene.shop.claim(worker) == []
    scene.drop_every_event()
    await scene.shop.submit()
    assert await scene.shop.claim(worker) == []

    await Poller(scene.shop.engine).turn()

    assert len(await scene.shop.claim(worker)) == 1


async def test_a_worker_back_from_draining_is_given_work_by_event(scene) -> None:
    worker = await scene.sit()
    await scene.shop.engine.run(Beat(principal=ADMIN, worker_id=worker, draining=True))
    await scene.shop.submit()
    await scene.settle()
    assert scene.given == []

    await scene.shop.engine.run(Beat(principal=ADMIN, worker_id=worker, draining=False))

    assert len(await scene.came()) == 1


async def test_a_worker_whose_drain_another_server_has_ended_claims_before_that_is_heard_of(scene) -> None:
    """The clock stands still: so the claim is no new sign of life, and changes nothing of the worker."""
    worker = await scene.shop.worker()
    await scene.shop.engine.run(Beat(principal=ADMIN, worker_id=worker, draining=True))
    await scene.shop.submit()
    async with scene.shop.engine.store.write() as tx:
        await tx.connection.execute(update(workers).where(workers.c.id == worker).values(state="online"))

    assert len(await scene.shop.claim(worker)) == 1


@asynccontextmanager
async def _turning(promoter: Promoter, engine: Engine) -> AsyncIterator[None]:
    turns = asyncio.create_task(supervise(promoter, Health("promoter"), engine.clock))
    try:
        yield
    finally:
        turns.cancel()
        await asyncio.wait([turns])


async def test_a_due_task_is_promoted_at_its_time_by_the_promoter_alone_e1(store) -> None:
    """E1, on the real clock: what `tests.bench.due` measures."""
    async with Engine(store).running() as engine:
        scene = Scene(Shop(engine), FakeClock())
        await scene.shop.register()
        await scene.sit()
        async with _turning(Promoter(engine), engine):
            await scene.shop.submit(delay=60)
            [later] = await scene.shop.submit(delay=3600)
            [sooner] = await scene.shop.submit(delay=0.1)  # comes later and shortens the wait

            first = (await scene.came())[0]

    assert first.id == sooner.id
    assert first.claimed_at >= sooner.due_at
    assert later.id not in {task.id for task in scene.given}


async def test_a_due_task_is_promoted_though_every_event_is_lost_e1(store) -> None:
    async with Engine(store).running() as engine:
        scene = Scene(Shop(engine), FakeClock())
        await scene.shop.register()
        promoter = Promoter(engine)
        promoter.wake = lambda: None
        await scene.sit()
        async with _turning(promoter, engine):
            await scene.shop.submit(delay=0.1)

            assert len(await scene.came()) == 1


async def test_a_task_that_comes_while_the_promoter_reads_the_next_time_shortens_its_wait_e1(shop, monkeypatch) -> None:
    """E1: the read may not have seen it, and what is compared with must not be a time that is past."""
    from treadle_server.services import promoter as module

    promoter = Promoter(shop.engine)
    await shop.submit(delay=1)
    await promoter.turn()
    await promoter.wait(0)  # what woke it until now is over
    original = module.next_due

    async def slow(connection):
        found = await original(connection)
        await shop.submit(delay=30)
        return found

    shop.engine.clock.advance(1)
    monkeypatch.setattr(module, "next_due", slow)
    await promoter.turn()

    async with asyncio.timeout(20):
        await promoter.wait(60)
