"""The fast paths of submits and reports: quicker than the slow path, and never different from it."""

import asyncio
from collections.abc import Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from uuid import UUID

import pytest
import sqlalchemy as sa

from tests.conftest import _database_of, _postgres_database
from tests.engine.conftest import ADMIN, Shop
from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.status import Status
from treadle_server.access.principal import Principal
from treadle_server.engine import applying
from treadle_server.engine import engine as engine_module
from treadle_server.engine.commands import (
    Beat,
    FindWorker,
    RegisterJob,
    RegisterWorker,
    ReportMany,
    RunReport,
    Submission,
    Submit,
    SubmitEach,
)
from treadle_server.engine.engine import Engine
from treadle_server.engine.fast_path import reports as fast_path_reports
from treadle_server.errors import (
    Forbidden,
    InvalidTaskTransition,
    JobNotFound,
    StaleRun,
    StoreUnavailable,
    TaskConflict,
)
from treadle_server.store.past_runs import past_runs
from treadle_server.store.read.positions import positions
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import jobs, lane_counts, targets, task_specs, tasks, worker_jobs
from treadle_server.store.transaction.counts import fold_counts

pytestmark = pytest.mark.anyio

JOB = "@global:tasks:noop"
LOOSE = "@global:tasks:loose"


def numbered(n: int) -> TaskId:
    return TaskId(str(UUID(int=n)))


def item(n: int, **details) -> Submission:
    return Submission(job_name=JOB, payload=f'{{"n":{n}}}', content_hash=b"%d" % n, id=numbered(n), **details)


def each(*items: Submission) -> SubmitEach:
    return SubmitEach(principal=ADMIN, room="@global", items=list(items))


def reports(worker, *said: tuple[TaskId, int, RunReport]) -> ReportMany:
    return ReportMany(principal=ADMIN, worker_id=worker, reports=list(said))


def take_the_long_way(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine._cache, "look", lambda _tx: False)
    monkeypatch.setattr(engine.fast_reports, "know", lambda _tasks: None)


def note_the_long_way(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the number of commands whenever some of them take the slow path."""
    noted: list[int] = []
    do_work = applying.apply

    async def noted_work(work, reads, taken, wanted):
        noted.append(len(wanted))
        await do_work(work, reads, taken, wanted)

    monkeypatch.setattr(engine_module, "apply", noted_work)
    return noted


async def everything(engine: Engine) -> dict[str, list[tuple]]:
    """Return every row of what a task leaves behind, without the names that are drawn at random."""
    if engine.store.dialect == "postgresql":
        async with engine.store.write() as tx:
            await fold_counts(tx)
    runs = past_runs()
    async with engine.store.read() as connection:
        specs = await connection.execute(sa.select(task_specs).order_by(task_specs.c.seq))
        found = {
            "specs": [tuple(r) for r in specs],
            "tasks": [tuple(r) for r in await connection.execute(sa.select(tasks).order_by(tasks.c.seq))],
            "targets": [tuple(r) for r in await connection.execute(sa.select(targets).order_by(targets.c.num))],
            "runs": [tuple(r) for r in await connection.execute(sa.select(runs).order_by(runs.c.task_seq))],
            "counts": [tuple(r) for r in await connection.execute(sa.select(lane_counts).where(lane_counts.c.n != 0))],
        }
    worker = tasks.c.keys().index("worker_id")
    owner = runs.c.keys().index("worker_id")
    found["tasks"] = [(*row[:worker], row[worker] is None, *row[worker + 1 :]) for row in found["tasks"]]
    found["runs"] = [(*row[:owner], row[owner] is None, *row[owner + 1 :]) for row in found["runs"]]
    found["counts"].sort()
    return found


async def a_days_work(shop: Shop, clock) -> None:
    """Submit, claim, start, complete, in all the forms that may go by the fast path."""
    worker = await shop.worker()
    await shop.engine.run(each(*(item(n) for n in range(1, 6))))
    await shop.engine.run(Submit(principal=ADMIN, room="@global", items=[item(6, options={"priority": 3}), item(7)]))
    await shop.engine.run(each(item(8, tags='{"a":"b"}', options={"timeout": 5.0, "weight": 2, "max_retries": 1})))
    clock.advance(1)
    claimed = {task.id: task for task in await shop.claim(worker, 6)}
    clock.advance(1)
    done, started, gone = list(claimed)[:3], list(claimed)[3:5], list(claimed)[5]
    await shop.engine.run(reports(worker, *((t, 0, RunReport(kind="started")) for t in [*started, done[0]])))
    clock.advance(1)
    await shop.engine.run(
        reports(
            worker,
            (done[1], 0, RunReport(kind="started")),
            (done[0], 0, RunReport(kind="completed", result="1")),
            (done[1], 0, RunReport(kind="completed", result='{"x":[1]}')),
            (done[2], 0, RunReport(kind="completed", starts=True)),
            (gone, 0, RunReport(kind="failed", error="boom", starts=True)),
            (started[0], 0, RunReport(kind="progress", progress='{"share":0.5}')),
            (started[0], 0, RunReport(kind="completed", result="2")),
        )
    )
    await a_targets_work(shop, worker, clock)


async def a_targets_work(shop: Shop, worker: WorkerId, clock) -> None:
    """Two lines before two targets: the next in each is free when the first has completed, or else waits."""
    await shop.engine.run(each(item(11, target="robot"), item(12, target="arm"), item(13, target="robot")))
    await shop.engine.run(
        each(item(14, target="robot", options={"priority": 5}), item(15, target="arm"), item(16, target="hand"))
    )
    clock.advance(1)
    one, *others = [task for task in await shop.claim(worker, 20) if task.target is not None]
    assert [task.id for task in (one, *others)] == [numbered(n) for n in (14, 12, 16)]
    await shop.engine.run(reports(worker, (one.id, 0, RunReport(kind="completed", starts=True))))
    await shop.engine.run(reports(worker, *((task.id, 0, RunReport(kind="started")) for task in others)))
    clock.advance(1)
    again = await shop.claim(worker, 20)
    assert [task.id for task in again if task.target is not None] == [numbered(11)]


@pytest.mark.parametrize("by_express", [True, False])
async def test_neither_way_takes_another_users_report(shop: Shop, monkeypatch, by_express: bool) -> None:
    """G2: the command looks at whose worker it is, whoever calls it, and wherever it runs."""
    if not by_express:
        take_the_long_way(shop.engine, monkeypatch)
    worker = await shop.worker()
    await shop.submit(2)
    [first, second] = await shop.claim(worker, 2)
    said = [(task.id, 0, RunReport(kind="completed", starts=True)) for task in (first, second)]
    for stranger in (Principal("eve"), Principal("admin", scopes=frozenset({"queue:read:*"}))):
        refused = await shop.engine.run(ReportMany(principal=stranger, worker_id=worker, reports=said))
        assert [type(refused[i]) for i in range(2)] == [Forbidden, Forbidden]
    assert (await shop.get(first.id)).status is Status.CLAIMED

    scoped = Principal("eve", scopes=frozenset({f"queue:claim-task:{first.id}/0"}))
    refused = await shop.engine.run(ReportMany(principal=scoped, worker_id=worker, reports=said))

    assert {i: type(error) for i, error in refused.items()} == {1: Forbidden}


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def two_urls(request: pytest.FixtureRequest, tmp_path) -> Iterator[list[str]]:
    """Two databases without a task."""
    if request.param == "sqlite":
        yield [f"sqlite:///{tmp_path / name}.db" for name in ("one", "other")]
        return
    url, template = (request.getfixturevalue(f"postgres_{name}") for name in ("url", "template"))
    with _postgres_database(url, template) as one, _postgres_database(url, template) as other:
        yield [_database_of(url, name) for name in (one, other)]


async def test_both_ways_leave_the_same_rows(two_urls, clock, monkeypatch) -> None:
    left = []
    for url, is_long in zip(two_urls, (False, True), strict=True):
        store = SqlStore(url)
        await store.open()
        await store.seek_exclusive()
        engine = Engine(store, clock=replace_clock(clock))
        async with engine.running():
            if is_long:
                take_the_long_way(engine, monkeypatch)
            shop = Shop(engine)
            await shop.register()
            await engine.run(each(item(100)))  # the first one makes the lane
            await a_days_work(shop, engine.clock)
            left.append(await everything(engine))
        await store.close()

    assert left[0] == left[1]
    assert len(left[0]["runs"]) == 6


def replace_clock(clock):
    """Return a clock of its own that shows the same time."""
    other = type(clock)()
    other.at, other.passed = clock.at, clock.passed
    return other


async def test_plain_submits_and_reports_go_by_the_fast_path(shop, monkeypatch) -> None:
    worker = await shop.worker()
    await shop.submit()
    await shop.engine.run(each(item(1)))
    claimed = await shop.claim(worker, 2)
    long = note_the_long_way(monkeypatch)

    await shop.engine.run(each(item(2), item(3)))
    said = [(task.id, 0, RunReport(kind="completed", starts=True)) for task in claimed]
    assert await shop.engine.run(reports(worker, *said)) == {}

    assert long == []
    assert (await shop.get(claimed[0].id)).status is Status.COMPLETED


async def loose(shop: Shop) -> WorkerId:
    """Register a job that is not kept without workers, and a worker of it."""
    worker = await shop.engine.run(RegisterWorker(principal=ADMIN))
    job = {"room": "@global", "category": "tasks", "name": "loose", "schema": "{}", "retain": False}
    await shop.engine.run(RegisterJob(principal=ADMIN, worker_id=worker.id, **job))
    return worker.id


@pytest.mark.parametrize("starts", [True, False])
async def test_reports_of_a_job_that_is_not_retained_go_by_the_fast_path_too(shop, monkeypatch, starts: bool) -> None:
    worker = await loose(shop)
    [task] = await shop.submit(job=LOOSE)
    await shop.claim(worker)
    long = note_the_long_way(monkeypatch)

    if not starts:
        assert await shop.engine.run(reports(worker, (task.id, 0, RunReport(kind="started")))) == {}
    assert await shop.engine.run(reports(worker, (task.id, 0, RunReport(kind="completed", starts=starts)))) == {}

    assert long == []
    assert (await shop.get(task.id)).status is Status.COMPLETED


async def test_the_last_task_of_a_worker_that_serves_its_job_no_more_deletes_the_job_z6(shop) -> None:
    worker = await loose(shop)
    [task] = await shop.submit(job=LOOSE)
    await shop.claim(worker)
    async with shop.engine.store.write() as tx:
        await tx.connection.execute(worker_jobs.delete())
    await shop.engine.run(FindWorker(principal=ADMIN, worker_id=worker))

    assert await shop.engine.run(reports(worker, (task.id, 0, RunReport(kind="completed", starts=True)))) == {}

    async with shop.engine.store.read() as connection:
        deleted = sa.select(jobs.c.deleted_at).where(jobs.c.name == "loose")
        assert (await connection.execute(deleted)).scalar_one() is not None


async def test_submits_and_completions_with_a_target_go_by_the_fast_path_l2(shop, monkeypatch) -> None:
    """L2: each target's line moves on by one, and no further."""
    worker = await shop.worker()
    await shop.submit()
    await shop.claim(worker)
    long = note_the_long_way(monkeypatch)

    await shop.engine.run(each(*(item(n, target=f"robot-{n % 2}") for n in range(6))))
    assert long == []
    for first in (0, 2, 4):
        claimed = await shop.claim(worker, 6)
        assert [task.id for task in claimed] == [numbered(first), numbered(first + 1)]
        long.clear()
        said = [(task.id, 0, RunReport(kind="completed", starts=True)) for task in claimed]
        assert await shop.engine.run(reports(worker, *said)) == {}
        assert long == []


async def test_more_targets_than_are_remembered_keep_their_numbers_l7(shop, monkeypatch) -> None:
    monkeypatch.setattr("treadle_server.engine.cache.MOST_TARGETS", 2)
    await shop.submit()

    for n in range(0, 9, 3):
        await shop.engine.run(each(*(item(m, target=f"robot-{m % 4}") for m in range(n, n + 3))))

    async with shop.engine.store.read() as connection:
        rows = await connection.execute(
            sa.select(tasks.c.target, targets.c.name, targets.c.room).join_from(tasks, targets)
        )
        found = rows.all()
        names = list((await connection.execute(sa.select(targets.c.name).order_by(targets.c.name))).scalars())
    assert len(found) == 9
    assert all(target == name and room == "@global" for target, name, room in found)
    assert names == [f"robot-{n}" for n in range(4)]


async def test_an_id_that_is_taken_is_found_out_by_the_database_g6(shop) -> None:
    await shop.submit()
    [first] = await shop.engine.run(each(item(1)))

    again, other, fresh = await shop.engine.run(
        each(item(1), replace(item(1), content_hash=b"other"), item(2)),
    )

    assert (again.task.id, again.created) == (first.task.id, False)
    assert isinstance(other, TaskConflict)
    assert fresh.created
    with pytest.raises(TaskConflict):
        twins = [item(9), replace(item(9), content_hash=b"o")]
        await shop.engine.run(Submit(principal=ADMIN, room="@global", items=twins))


async def test_one_that_is_refused_leaves_the_others_of_its_request_e11(shop) -> None:
    good, bad, better = await shop.engine.run(each(item(1), replace(item(2), job_name="@global:tasks:none"), item(3)))

    assert good.created
    assert isinstance(bad, JobNotFound)
    assert better.created


async def test_places_are_those_that_a_read_finds_z14(shop) -> None:
    await shop.submit()
    told = {}
    for n, priority in enumerate([0, 2, 0, 1, 2, -1, 0], start=1):
        [taken] = await shop.engine.run(each(item(n, options={"priority": priority})))
        told[taken.task.seq] = taken.position
        async with shop.engine.store.read() as connection:
            found = await positions(connection, [taken.task])
        assert found[taken.task.seq] == taken.position
    worker = await shop.worker()
    await shop.claim(worker, 3)
    await shop.steer((await shop.engine.run(each(item(50))))[0].task, "cancel")

    [last] = await shop.engine.run(each(item(99)))

    assert last.position == 5  # four of its priority before it, and one of a lower behind


async def test_a_cancel_of_the_same_batch_goes_before_the_report_that_follows_it(shop) -> None:
    worker = await shop.worker()
    await shop.submit(2)
    one, other = await shop.claim(worker, 2)
    said = [(task.id, 0, RunReport(kind="completed", starts=True)) for task in (one, other)]

    _, refused = await asyncio.gather(shop.steer(one, "cancel"), shop.engine.run(reports(worker, *said)))

    assert isinstance(refused[0], StaleRun)
    assert (await shop.get(one.id)).status is Status.CANCELLED
    assert (await shop.get(other.id)).status is Status.COMPLETED


async def test_a_report_that_is_not_plain_takes_all_of_its_run_the_long_way_in_order(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)

    refused = await shop.engine.run(
        reports(
            worker,
            (task.id, 0, RunReport(kind="started")),
            (task.id, 0, RunReport(kind="checkpoint", checkpoint="[1]")),
            (task.id, 0, RunReport(kind="completed", result="1")),
            (task.id, 0, RunReport(kind="progress", progress="{}")),
        )
    )

    assert list(refused) == [3]
    ended = await shop.get(task.id)
    assert (ended.status, ended.checkpoint, ended.result) == (Status.COMPLETED, "[1]", "1")


async def test_a_completion_without_its_start_is_refused_as_ever_z7(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)

    refused = await shop.engine.run(reports(worker, (task.id, 0, RunReport(kind="completed"))))

    assert isinstance(refused[0], InvalidTaskTransition)
    assert (await shop.get(task.id)).status is Status.CLAIMED


async def test_the_same_completion_twice_is_fine_and_another_is_refused_c7(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    same = (task.id, 0, RunReport(kind="completed", result="1", starts=True))

    assert await shop.engine.run(reports(worker, same)) == {}
    refused = await shop.engine.run(reports(worker, same, (task.id, 0, RunReport(kind="completed", result="2"))))

    assert list(refused) == [1]
    assert isinstance(refused[1], StaleRun)


async def test_what_another_writer_changed_is_read_anew_and_the_report_judged_by_it_g3(shop) -> None:
    worker = await shop.worker()
    await shop.submit(2)
    one, other = await shop.claim(worker, 2)
    async with shop.engine.store.write() as tx:
        # As another server would, behind this engine's back.
        stolen = sa.update(tasks).where(tasks.c.id == one.id)
        await tx.connection.execute(stolen.values(run_id=1, version=one.version + 2))
    said = [(task.id, 0, RunReport(kind="completed", starts=True)) for task in (one, other)]

    refused = await shop.engine.run(reports(worker, *said))

    assert list(refused) == [0]
    assert isinstance(refused[0], StaleRun)
    assert (await shop.get(one.id)).status is Status.CLAIMED
    assert (await shop.get(other.id)).status is Status.COMPLETED


async def test_a_heartbeat_leaves_the_runs_that_it_renews_to_the_express_way(shop, clock, monkeypatch) -> None:
    worker = await shop.worker()
    await shop.submit(3)
    going, paused, cancelled = await shop.claim(worker, 3)
    await shop.engine.run(reports(worker, (going.id, 0, RunReport(kind="started"))))
    clock.advance(40)
    await shop.engine.run(Beat(principal=ADMIN, worker_id=worker))
    await shop.steer(paused, "pause")
    await shop.steer(cancelled, "cancel")
    noted = note_the_long_way(monkeypatch)

    assert await shop.engine.run(reports(worker, (going.id, 0, RunReport(kind="completed")))) == {}

    assert not noted
    done = await shop.get(going.id)
    assert (done.status, done.version, done.taken_until) == (Status.COMPLETED, 4, None)
    assert await shop.engine.run(reports(worker, (paused.id, 0, RunReport(kind="paused", starts=True)))) == {}
    assert (await shop.get(paused.id)).status is Status.PAUSED
    refused = await shop.engine.run(reports(worker, (cancelled.id, 0, RunReport(kind="completed", starts=True))))
    assert list(refused) == [0]
    assert len(noted) == 2


async def test_no_more_runs_are_known_than_so_many_and_none_that_were_claimed_elsewhere(shop, monkeypatch) -> None:
    monkeypatch.setattr(fast_path_reports, "MOST_KNOWN", 3)
    worker = await shop.worker()
    await shop.submit(9)
    sizes = []
    for most in (2, 2, 2):
        await shop.claim(worker, most)
        sizes.append(len(shop.engine.fast_reports._known))
    shop.engine.fast_reports.clear()

    await shop.engine.run(Beat(principal=ADMIN, worker_id=worker))

    assert sizes == [2, 4, 2]
    assert not shop.engine.fast_reports._known


async def test_a_job_that_somebody_else_deleted_takes_no_submit_z6(shop, database_url) -> None:
    await shop.submit()
    await shop.engine.run(each(item(1)))
    gone = jobs.update().values(deleted_at=shop.engine.clock.now())
    other = SqlStore(database_url)
    async with other.write() as tx:
        await tx.connection.execute(gone)
    await other.close()

    [refused] = await shop.engine.run(each(item(2)))

    assert isinstance(refused, JobNotFound)


async def test_a_failed_commit_leaves_nothing_remembered_g1(shop, monkeypatch) -> None:
    worker = await shop.worker()
    await shop.submit()
    await shop.engine.run(each(item(1)))
    [first, *_] = await shop.claim(worker, 2)
    write = shop.engine.store.write
    fails = [True]

    @asynccontextmanager
    async def failing(**how):
        async with write(**how) as tx:
            yield tx
            if fails:
                fails.clear()
                raise StoreUnavailable("the disk is gone")

    monkeypatch.setattr(shop.engine.store, "write", failing)
    said = reports(worker, (first.id, 0, RunReport(kind="completed", starts=True)))
    with pytest.raises(StoreUnavailable):
        await asyncio.gather(shop.engine.run(said), shop.engine.run(each(item(2))))
    assert (await shop.get(first.id)).status is Status.CLAIMED

    [again] = await shop.engine.run(each(item(2)))
    assert again.created
    assert await shop.engine.run(replace(said, rest=None)) == {}
    assert (await shop.get(first.id)).status is Status.COMPLETED
