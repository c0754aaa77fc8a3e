"""Jobs: registration, conflicts, soft deletion, pause."""

import asyncio

import pytest
import sqlalchemy as sa

from tests.engine.conftest import ADMIN
from treadle_server.access.principal import Principal
from treadle_server.domain.limits import Caps
from treadle_server.engine.commands import (
    DeleteLimit,
    DeleteOrphans,
    PatchJob,
    RegisterJob,
    RemoveWorker,
    SetLimit,
    SweepWorkers,
)
from treadle_server.errors import (
    Forbidden,
    InternalJobNotConfigured,
    InvalidCategory,
    InvalidRoomId,
    JobNotFound,
    LimitInUse,
    SchemaConflict,
    WorkerNotFound,
)
from treadle_server.store.read.jobs import possible_orphans
from treadle_server.store.tables import job_schemas
from treadle_server.store.transaction.counts import fold_counts

pytestmark = pytest.mark.anyio

USER = Principal("user")
NO_RATE = {"rate_count": None, "rate_seconds": None, "rate_burst": None}


def registration(schema: str = "{}", *, principal: Principal = ADMIN, **details) -> RegisterJob:
    values = {"room": "a", "category": "tasks", "name": "j", "schema": schema} | details
    return RegisterJob(principal=principal, **values)


async def test_two_first_registrations_with_two_schemas_make_one_and_a_conflict_z5(shop) -> None:
    answers = await asyncio.gather(
        shop.engine.run(registration('{"type": "object"}')),
        shop.engine.run(registration('{"type": "object", "required": ["x"]}')),
        return_exceptions=True,
    )

    assert [type(answer).__name__ for answer in answers] == ["Registered", "SchemaConflict"]


async def test_an_equal_schema_links_the_worker_whatever_the_order_of_its_keys_z5(shop) -> None:
    first = await shop.engine.run(registration('{"type": "object", "title": "T"}'))
    second = await shop.engine.run(registration('{"title":"T","type":"object"}'))

    assert (first.created, second.created) == (True, False)
    assert first.job.id == second.job.id
    assert first.worker_id != second.worker_id
    other = await shop.engine.run(registration('{"other": 1}', room="b"))
    assert other.created


async def test_a_schema_that_only_widens_replaces_by_itself_where_that_is_asked_for_z5(shop) -> None:
    """Whoever does not ask, as older clients, is answered as ever."""
    old, new = '{"type": "integer"}', '{"type": ["integer", "null"]}'
    await shop.engine.run(registration(old))

    with pytest.raises(SchemaConflict, match="--replace-schema"):
        await shop.engine.run(registration(new))
    widened = await shop.engine.run(registration(new, widen=True))
    with pytest.raises(SchemaConflict, match="does more than widen it"):
        await shop.engine.run(registration(old, widen=True))

    assert (widened.created, widened.job.schema_version, widened.job.schema) == (False, 2, new)


async def test_a_conflict_names_whose_schema_it_is_where_that_is_another_function_s_t1(shop) -> None:
    await shop.engine.run(registration("{}", origin="pictures:shrink"))

    for origin, whose in (("videos:shrink", r" \(of pictures:shrink\)"), ("pictures:shrink", "")):
        with pytest.raises(SchemaConflict, match=f"with another schema{whose}: replace it"):
            await shop.engine.run(registration('{"type": "object"}', origin=origin))


async def test_a_replacement_makes_a_new_schema_version(shop) -> None:
    await shop.engine.run(registration("{}"))

    replaced = await shop.engine.run(registration('{"type": "object"}', replace=True))

    assert (replaced.created, replaced.job.schema_version) == (False, 2)


async def test_replacements_in_one_commit_leave_each_schema_under_its_version(shop, caplog) -> None:
    caplog.set_level("DEBUG")
    await shop.engine.run(registration("{}"))
    several = [registration(f'{{"title": "{title}"}}', replace=True) for title in "ab"]

    await asyncio.gather(*map(shop.engine.run, several))

    async with shop.engine.store.read() as connection:
        kept = sa.select(job_schemas.c.version, job_schemas.c.schema).order_by(job_schemas.c.version)
        rows = [row for row in await connection.execute(kept) if "title" in row[1] or row[0] > 1]
    assert [tuple(row) for row in rows] == [(2, '{"title": "a"}'), (3, '{"title": "b"}')]
    assert "was faster" not in caplog.text


async def test_a_replacement_that_says_no_defaults_takes_them_away_and_a_link_leaves_them(shop) -> None:
    await shop.engine.run(SetLimit(principal=ADMIN, room="a", name="api", caps=Caps(concurrency=1, **NO_RATE)))
    await shop.engine.run(registration(defaults='{"limits": [{"name": "api"}]}'))
    delete = DeleteLimit(principal=ADMIN, room="a", name="api")

    linked = await shop.engine.run(registration())
    with pytest.raises(LimitInUse, match="replace: true"):
        await shop.engine.run(delete)
    replaced = await shop.engine.run(registration(replace=True))
    await shop.engine.run(delete)

    assert "api" in linked.job.defaults
    assert (replaced.job.defaults, replaced.job.schema_version) == ("{}", 1)


async def test_a_job_keeps_the_origin_that_was_told_first_until_it_is_replaced_widened_or_revived(shop) -> None:
    async def register(schema: str, origin: str | None, **details) -> str | None:
        return (await shop.engine.run(registration(schema, origin=origin, **details))).job.origin

    narrow, wide, other = '{"type": "integer"}', '{"type": ["integer", "null"]}', '{"type": "object"}'

    assert await register(narrow, None) is None
    assert await register(narrow, "a:f") == "a:f"
    assert await register(narrow, "b:f") == "a:f"
    assert await register(narrow, None, replace=True) == "a:f"
    assert await register(narrow, "b:f", replace=True) == "b:f"
    assert await register(wide, "c:f", widen=True) == "c:f"
    assert await register(other, "d:f", replace=True) == "d:f"
    assert await register(other, "e:f", defaults='{"priority": 1}') == "d:f"
    async with shop.engine.store.read() as connection:
        assert await connection.scalar(sa.text("SELECT origin FROM jobs WHERE room = 'a'")) == "d:f"


async def test_a_revived_job_has_the_origin_of_its_reviver(shop) -> None:
    first = await shop.engine.run(registration("{}", origin="a:f"))
    await shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=first.worker_id))

    revived = await shop.engine.run(registration("{}", origin="b:f"))

    assert (revived.created, revived.job.origin) == (True, "b:f")


@pytest.mark.parametrize(
    ("details", "error"),
    [
        ({"room": "@x"}, InvalidRoomId),
        ({"room": "a:b"}, InvalidRoomId),
        ({"room": "@global"}, Forbidden),
        ({"room": "@internal"}, Forbidden),
        ({"room": "@global", "category": "wrong"}, Forbidden),
        ({"category": "wrong"}, InvalidCategory),
        ({"worker_id": "00000000-0000-7000-8000-00000000000f"}, WorkerNotFound),
    ],
)
async def test_what_may_not_be_registered_is_refused_in_the_designs_order_z2_z3_z4(shop, details, error) -> None:
    with pytest.raises(error):
        await shop.engine.run(registration(principal=USER, **details))


async def test_a_job_is_deleted_when_its_last_worker_leaves_and_revived_by_a_registration_z6(shop) -> None:
    job = "a:tasks:j"
    first = await shop.engine.run(registration("{}"))
    await shop.submit(job=job, room="a")
    await shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=first.worker_id))
    [pending] = await shop.submit(job=job, room="a")  # it has an open task: not deleted yet

    second = await shop.engine.run(registration("{}"))
    for task in await shop.claim(second.worker_id, 5):
        await shop.run(task)
    await shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=second.worker_id))

    with pytest.raises(JobNotFound):
        await shop.submit(job=job, room="a")
    revived = await shop.engine.run(registration('{"type": "object"}'))
    assert (revived.created, revived.job.schema) != (False, "{}")
    assert revived.created
    assert (await shop.get(pending.id)).worker_id == second.worker_id


async def test_the_last_terminal_report_deletes_a_job_without_workers_z6(shop, clock) -> None:
    registered = await shop.engine.run(registration("{}"))
    await shop.submit(job="a:tasks:j", room="a", options={"lease_seconds": 1000})
    [claimed] = await shop.claim(registered.worker_id)
    await shop.report(claimed, "started")
    clock.advance(61)
    await shop.engine.run(SweepWorkers(60))

    with pytest.raises(JobNotFound):
        await shop.submit(job="a:tasks:j", room="a")


async def test_a_job_with_open_tasks_is_not_locked_and_looked_at_by_each_sweep_z6(shop) -> None:
    """10,000 of them held the writer for 0.3 s in each."""
    registered = await shop.engine.run(registration("{}"))
    [task] = await shop.submit(job="a:tasks:j", room="a")
    await shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=registered.worker_id))
    if shop.engine.store.dialect == "postgresql":
        async with shop.engine.store.write() as tx:
            await fold_counts(tx)

    async with shop.engine.store.read() as connection:
        assert await possible_orphans(connection) == []
    await shop.steer(task, "cancel")
    with pytest.raises(JobNotFound):
        await shop.submit(job="a:tasks:j", room="a")


async def test_a_retained_job_outlives_its_workers_z6(shop) -> None:
    registered = await shop.engine.run(registration("{}", retain=True))
    await shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=registered.worker_id))
    await shop.engine.run(DeleteOrphans([registered.job.num]))

    assert len(await shop.submit(job="a:tasks:j", room="a")) == 1


async def test_the_last_worker_leaves_during_a_submit_and_no_task_is_left_on_a_deleted_job_z6(shop) -> None:
    registered = await shop.engine.run(registration("{}"))

    answers = await asyncio.gather(
        shop.submit(job="a:tasks:j", room="a"),
        shop.engine.run(RemoveWorker(principal=ADMIN, worker_id=registered.worker_id)),
        shop.submit(job="a:tasks:j", room="a"),
        return_exceptions=True,
    )

    assert [isinstance(answer, Exception) for answer in answers] == [False, False, False]
    async with shop.engine.store.read() as connection:
        row = (await connection.exec_driver_sql("SELECT deleted_at FROM jobs WHERE room = 'a'")).one()
    assert row.deleted_at is None


async def test_a_paused_queue_is_not_claimed_from_and_a_resumed_one_is_at_once(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    pause = PatchJob(principal=ADMIN, job_name=shop.job, room="@global", paused=True)
    await shop.engine.run(pause)
    assert await shop.claim(worker) == []

    waiting = asyncio.ensure_future(shop.engine.claims.claim(ADMIN, worker, wait=20))
    await shop.engine.run(PatchJob(principal=ADMIN, job_name=shop.job, room="@global", paused=False))

    async with asyncio.timeout(20):
        assert len(await waiting) == 1


async def test_an_internal_job_is_never_claimed_and_without_an_executor_refused_z3_z12(shop) -> None:
    registered = await shop.engine.run(registration("{}", room="@internal"))

    with pytest.raises(InternalJobNotConfigured):
        await shop.submit(job="@internal:tasks:j")
    assert await shop.claim(registered.worker_id) == []


async def test_a_rooms_job_is_not_to_be_submitted_to_from_another_room_z3(shop) -> None:
    await shop.engine.run(registration("{}", retain=True))

    with pytest.raises(JobNotFound):
        await shop.submit(job="a:tasks:j", room="b")


async def test_the_same_schema_conflict_tells_what_to_do_g9(shop) -> None:
    await shop.engine.run(registration("{}"))

    with pytest.raises(SchemaConflict, match="replace: true"):
        await shop.engine.run(registration('{"x": 1}'))
