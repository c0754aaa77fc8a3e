"""Limits that let newer tasks take the place of older ones: of those that wait, and of those that run."""

import asyncio
from collections.abc import Sequence
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest

from tests.engine.test_limits import ids, named, set_limit, uses
from tests.waiting import until
from treadle.wire.limits import OnFull
from treadle.wire.status import Reason, Status
from treadle_server.domain.tasks import Task
from treadle_server.engine import reading, superseding
from treadle_server.engine.commands import Submission, SubmitEach
from treadle_server.engine.read_set import ReadSet
from treadle_server.engine.superseding import MOST
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import LimitFull, StoreUnavailable
from treadle_server.store.base import Overtaken

pytestmark = pytest.mark.anyio


async def statuses(shop, tasks: Sequence[Task]) -> str:
    """Return how the tasks stand, a letter each: `p`ending, `c`laimed, `s`uperseded."""
    found = [await shop.get(task.id) for task in tasks]
    assert all((task.status is Status.CANCELLED) == (task.reason is Reason.SUPERSEDED) for task in found)
    letters = {Status.PENDING: "p", Status.CLAIMED: "c", Status.CANCELLED: "s", Status.SCHEDULED: "-"}
    return "".join(letters[task.status] for task in found)


async def test_of_those_that_wait_under_a_key_only_the_newest_stays(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="newest")
    worker = await shop.worker()
    [other] = await shop.submit(limits=named(key="other"))
    [running] = await shop.submit(limits=named(key="acme"))
    claimed = await shop.claim(worker, 5)
    assert ids(claimed) == ids([other, running])

    waiting = [(await shop.submit(limits=named(key="acme")))[0] for _ in range(3)]
    [apart] = await shop.submit(limits=named(key="other"))

    assert await statuses(shop, [running, *waiting, apart]) == "csspp"
    [first, newest] = [await shop.get(task.id) for task in waiting[1:]]
    assert first.error == f"task {newest.id} superseded it: the limit 'api' of room @global was full"
    await shop.run(claimed[1])
    assert ids(await shop.claim(worker, 5)) == ids([newest])


async def test_while_there_is_room_nobody_is_superseded(shop) -> None:
    await set_limit(shop, concurrency=3, on_full="replace")
    tasks = await shop.submit(2, limits=named())
    tasks += await shop.submit(limits=named())
    assert await statuses(shop, tasks) == "ppp"

    [heavy] = await shop.submit(limits=named(weight=3))

    assert await statuses(shop, [*tasks, heavy]) == "sssp"


async def test_of_a_bulk_the_last_one_stays_and_each_is_answered_as_it_stands(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="newest")

    answered = await shop.submit(4, limits=named())

    assert [task.status for task in answered] == [Status.CANCELLED] * 3 + [Status.PENDING]
    assert await statuses(shop, answered) == "sssp"
    items = [Submission(job_name=shop.job, payload="{}", content_hash=b"x", limits=named()) for _ in range(2)]
    taken = await shop.engine.run(SubmitEach(principal=shop.principal, room="@global", items=items))
    assert await statuses(shop, [*answered, *(one.task for one in taken)]) == "sssssp"


async def test_the_oldest_runs_go_until_it_fits_and_their_code_is_waited_for(shop) -> None:
    await set_limit(shop, concurrency=4, on_full="replace")
    worker = await shop.worker()
    running = [(await shop.submit(limits=named(weight=weight)))[0] for weight in (1, 2, 1)]
    claimed = await shop.claim(worker, 5)
    assert len(claimed) == 3

    [new] = await shop.submit(limits=named(weight=2))

    assert await statuses(shop, [*running, new]) == "sscp"
    assert await uses(shop) == [(0, 1), (0, 2), (0, 1)]
    assert await shop.claim(worker, 5) == [], "the code of what was superseded has not stopped"
    await shop.report(claimed[0], "stopped")
    assert await shop.claim(worker, 5) == []
    await shop.report(claimed[1], "stopped")
    assert ids(await shop.claim(worker, 5)) == ids([new])
    assert sum(weight for _, weight in await uses(shop)) == 3


async def test_who_comes_while_the_superseded_stop_takes_the_place_of_who_waits_for_that(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="replace")
    worker = await shop.worker()
    first = await shop.submit(limits=named())
    [claimed] = await shop.claim(worker)

    tasks = [(await shop.submit(limits=named()))[0] for _ in range(2)]

    assert await statuses(shop, [*first, *tasks]) == "ssp"
    await shop.report(claimed, "stopped")
    assert ids(await shop.claim(worker, 5)) == ids(tasks[1:])


async def test_with_newest_what_runs_is_left_alone(shop) -> None:
    await set_limit(shop, concurrency=2, on_full="newest")
    worker = await shop.worker()
    running = await shop.submit(2, limits=named())
    assert len(await shop.claim(worker, 5)) == 2

    waiting = [(await shop.submit(limits=named()))[0] for _ in range(2)]

    assert await statuses(shop, [*running, *waiting]) == "ccsp"


async def test_a_rate_supersedes_what_waits_for_a_token_and_nothing_that_runs(shop, clock) -> None:
    await set_limit(shop, rate=(1, 60), on_full="replace")
    worker = await shop.worker()
    [running] = await shop.submit(limits=named())
    assert len(await shop.claim(worker)) == 1

    waiting = [(await shop.submit(limits=named()))[0] for _ in range(3)]

    assert await statuses(shop, [running, *waiting]) == "cssp"


async def test_what_is_due_later_supersedes_nothing_and_is_superseded_once_it_waits(shop, clock) -> None:
    await set_limit(shop, concurrency=1, on_full="newest")
    [waits] = await shop.submit(limits=named())
    later = await shop.submit(2, limits=named(), due_at=shop.engine.clock.now() + timedelta(minutes=1))
    assert await statuses(shop, [waits, *later]) == "p--"

    [newest] = await shop.submit(limits=named())

    assert await statuses(shop, [waits, *later, newest]) == "s--p"


async def test_each_limit_of_a_task_supersedes_by_itself_and_one_that_rejects_is_asked_first(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="newest")
    await set_limit(shop, "gpu", concurrency=2, on_full="replace")
    await set_limit(shop, "strict", concurrency=1, on_full="reject")
    worker = await shop.worker()
    [on_gpu] = await shop.submit(limits=named("gpu", weight=2))
    assert len(await shop.claim(worker)) == 1
    [waits] = await shop.submit(limits=named())
    [strict] = await shop.submit(limits=named("strict"))

    with pytest.raises(LimitFull):
        await shop.submit(limits=[*named(), *named("gpu"), *named("strict")])
    assert await statuses(shop, [on_gpu, waits, strict]) == "cpp"
    [both] = await shop.submit(limits=[*named(), *named("gpu")])
    assert await statuses(shop, [on_gpu, waits, strict, both]) == "sspp"

    [other] = await shop.submit(limits=named("gpu", weight=2))
    assert await statuses(shop, [both, other]) == "sp"


async def test_what_is_there_already_supersedes_nobody(shop) -> None:
    await set_limit(shop, concurrency=1, on_full="newest")
    [task] = await shop.submit(limits=named(), unique_key="k")
    [newest] = await shop.submit(limits=named())

    assert (await shop.submit(limits=named(), id=task.id))[0].id == task.id

    assert await statuses(shop, [task, newest]) == "sp"


async def test_a_limit_that_had_thousands_waiting_supersedes_them_in_portions(shop) -> None:
    await set_limit(shop, concurrency=1)
    await shop.submit(MOST + 5, limits=named())

    await set_limit(shop, concurrency=1, on_full="newest")
    await shop.submit(limits=named())
    async with shop.engine.store.read() as connection:
        left = "SELECT count(*) FROM tasks WHERE status = 'pending'"
        assert (await connection.exec_driver_sql(left)).scalar_one() == 6
        await shop.submit(limits=named())
    async with shop.engine.store.read() as connection:
        assert (await connection.exec_driver_sql(left)).scalar_one() == 1


@pytest.mark.postgres
@pytest.mark.parametrize("on_full", ["newest", "replace"])
async def test_what_another_server_puts_in_while_a_batch_is_made_is_superseded_too(
    shops_by_its_clock, monkeypatch: pytest.MonkeyPatch, on_full: OnFull
) -> None:
    here, there = shops_by_its_clock
    await set_limit(here, concurrency=1, on_full=on_full)
    worker = await there.worker()
    first = await there.submit(limits=named())
    read, others = superseding.waiting_in, list[Task]()

    async def overtaken(*given: Any) -> Any:
        found = await read(*given)
        if not others:
            others.append(first[0])
            others.extend(await there.submit(limits=named()))
            if on_full == "replace":
                assert len(await there.claim(worker)) == 1
        return found

    monkeypatch.setattr(superseding, "waiting_in", overtaken)
    [newest] = await here.submit(limits=named())

    assert await statuses(here, [*others, newest]) == "ssp"


@pytest.mark.postgres
async def test_who_was_overtaken_goes_before_all_that_would_overtake_it_again(
    shops_by_its_clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = shops_by_its_clock
    await set_limit(here, concurrency=1, on_full="newest")
    await there.submit(limits=named())
    read, look, others = reading.read_rivals, superseding.waiting_in, list[asyncio.Task[Any]]()
    is_here = ContextVar("is_here", default=False)

    async def is_in_or_waits() -> bool:
        async with here.engine.store.read() as connection:
            waits = await connection.exec_driver_sql("SELECT 1 FROM pg_locks WHERE NOT granted")
            return others[-1].done() or waits.first() is not None

    async def noted(work: UnitOfWork, reads: ReadSet) -> None:
        is_here.set(work.rules is here.engine.rules)
        await read(work, reads)
        is_here.set(False)

    async def overtaken(*given: Any) -> Any:
        found = await look(*given)
        if is_here.get() and len(others) < 20:
            others.append(asyncio.create_task(there.submit(limits=named())))
            await until(is_in_or_waits)
        return found

    monkeypatch.setattr(reading, "read_rivals", noted)
    monkeypatch.setattr(superseding, "waiting_in", overtaken)
    [mine] = await here.submit(limits=named())
    theirs = [(await other)[0] for other in others]

    assert len(others) == 2, "it was overtaken once, and the second one waits until it is in"
    assert await statuses(here, [theirs[0], mine, theirs[1]]) == "ssp"


@pytest.mark.postgres
async def test_who_is_overtaken_every_time_is_told_to_try_again_and_nothing_was_changed(
    shops_by_its_clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, _ = shops_by_its_clock
    await set_limit(here, concurrency=1, on_full="newest")
    [first] = await here.submit(limits=named())

    async def overtaken(*_: Any) -> None:
        raise Overtaken("another server has submitted a task to be superseded")

    with monkeypatch.context() as patched:
        patched.setattr(superseding, "take_turn", overtaken)
        with pytest.raises(StoreUnavailable, match="nothing was changed, try again"):
            await here.submit(limits=named())

    assert await statuses(here, [first]) == "p"
    assert await statuses(here, [first, *(await here.submit(limits=named()))]) == "sp"
