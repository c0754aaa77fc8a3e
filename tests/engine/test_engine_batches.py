"""The batching writer: many requests in a commit, none of which suffers from another."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError, OperationalError

from tests.engine.conftest import ADMIN, Shop
from treadle.ids import new_id
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.engine.commands import RegisterJob, Submission, Submit, Submitted
from treadle_server.engine.engine import Engine
from treadle_server.errors import InvalidTaskTransition, JobNotFound, StoreUnavailable, TaskConflict, TooManyRequests
from treadle_server.operations.submitting import _run_each
from treadle_server.store.base import LostUpdate
from treadle_server.store.store import SqlStore

pytestmark = pytest.mark.anyio

ID = TaskId("00000000-0000-7000-8000-0000000000aa")


def submission(content: bytes = b"x", **details) -> Submission:
    return Submission(job_name="@global:tasks:noop", payload="{}", content_hash=content, **details)


def submit(*items: Submission) -> Submit:
    return Submit(principal=ADMIN, room="@global", items=list(items))


async def count_tasks(shop: Shop) -> int:
    async with shop.engine.store.read() as connection:
        return (await connection.exec_driver_sql("SELECT count(*) FROM tasks")).scalar()


class CountingStore(SqlStore):
    """A store that counts its commits, and fails them on demand."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.commits = 0
        self.fail_commits = 0

    @asynccontextmanager
    async def write(self, **how):
        async with super().write(**how) as tx:
            yield tx
            if self.fail_commits:
                self.fail_commits -= 1
                raise StoreUnavailable("the disk is gone")
            self.commits += 1


@pytest.fixture
async def store(database_url):
    store = CountingStore(database_url)
    await store.open()
    yield store
    assert store.connections_checked_out() == 0
    await store.close()


async def test_requests_that_wait_share_one_commit_e11(shop) -> None:
    before = shop.engine.store.commits

    await asyncio.gather(*[shop.submit() for _ in range(300)])

    assert await count_tasks(shop) == 300
    assert shop.engine.store.commits - before <= 3


async def test_a_refused_request_leaves_the_others_of_its_batch_e11(shop) -> None:
    await shop.worker()
    [task] = await shop.submit()

    answers = await asyncio.gather(
        shop.submit(),
        shop.steer(task, "resume"),
        shop.engine.run(submit(Submission(job_name="@global:tasks:nowhere", payload="{}", content_hash=b""))),
        shop.submit(),
        return_exceptions=True,
    )

    assert isinstance(answers[1], InvalidTaskTransition)
    assert isinstance(answers[2], JobNotFound)
    assert await count_tasks(shop) == 3


async def test_a_request_that_the_database_refuses_leaves_the_others_of_its_batch_e11(shop) -> None:
    poison = submit(submission(tags="this is no JSON", deadline="and this is no instant"))

    answers = await asyncio.gather(shop.submit(), shop.engine.run(poison), shop.submit(), return_exceptions=True)

    assert isinstance(answers[1], Exception)
    assert not isinstance(answers[0], Exception)
    assert not isinstance(answers[2], Exception)
    assert await count_tasks(shop) == 2


async def test_g1_a_failed_commit_acknowledges_none_and_g7_publishes_nothing(shop) -> None:
    heard = []
    shop.engine.hub.listen(heard.append)
    shop.engine.store.fail_commits = 1

    answers = await asyncio.gather(*[shop.submit() for _ in range(10)], return_exceptions=True)

    assert all(isinstance(answer, StoreUnavailable) for answer in answers)
    assert heard == []
    assert await count_tasks(shop) == 0
    await shop.submit()
    assert await count_tasks(shop) == 1


async def test_claims_of_a_failed_commit_are_not_handed_out_g1(shop) -> None:
    worker = await shop.worker()
    await shop.submit()
    shop.engine.store.fail_commits = 1

    with pytest.raises(StoreUnavailable):
        await shop.claim(worker)

    [claimed] = await shop.claim(worker)
    assert claimed.run_id == 0


async def test_g6_the_same_id_with_the_same_content_is_the_first_task_again(shop) -> None:
    [first] = await shop.engine.run(submit(submission(id=ID)))
    [again] = await shop.engine.run(submit(submission(id=ID)))

    assert (first.created, again.created) == (True, False)
    assert first.task.id == again.task.id == ID
    with pytest.raises(TaskConflict):
        await shop.engine.run(submit(submission(b"other", id=ID)))
    assert await count_tasks(shop) == 1


async def test_g6_the_same_id_many_times_at_once_makes_one_task(shop) -> None:
    answers = await asyncio.gather(*[shop.engine.run(submit(submission(id=ID))) for _ in range(20)])

    assert sum(one.created for [one] in answers) == 1
    assert await count_tasks(shop) == 1


async def test_many_tasks_are_submitted_all_or_none(shop) -> None:
    await shop.engine.run(submit(submission(id=ID)))

    with pytest.raises(TaskConflict):
        await shop.engine.run(submit(submission(), submission(b"other", id=ID), submission()))

    assert await count_tasks(shop) == 1


async def test_beyond_its_bound_the_queue_of_the_writer_refuses_with_retry_after(store, clock) -> None:
    engine = Engine(store, clock=clock, most_waiting=5)
    shop = Shop(engine)
    async with engine.running():
        await shop.register()
        answers = await asyncio.gather(*[shop.submit() for _ in range(20)], return_exceptions=True)

        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert refused
        assert all(isinstance(answer, TooManyRequests) and answer.retry_after for answer in refused)
        assert await count_tasks(shop) == 20 - len(refused)


async def test_a_large_submit_that_waits_turns_away_large_ones_and_nobody_who_has_few_tasks(store, clock) -> None:
    engine = Engine(store, clock=clock, most_rows=3, most_waiting=5)
    shop = Shop(engine)
    async with engine.running():
        await shop.register()
        large = [shop.submit(6) for _ in range(6)]
        answers = await asyncio.gather(*large, shop.submit(), shop.submit(), return_exceptions=True)

        refused = [i for i, answer in enumerate(answers) if isinstance(answer, TooManyRequests)]
        assert refused == [5]
        assert await count_tasks(shop) == 32


async def test_tasks_that_stand_by_themselves_let_others_in_between_their_portions(store, clock) -> None:
    engine = Engine(store, clock=clock, most_rows=3)
    context: Any = SimpleNamespace(engine=engine)
    async with engine.running():
        shop = Shop(engine)
        await shop.register()
        many = [submission(id=new_id(), unique_key=f"k{n}") for n in range(9)]
        taken, [other] = await asyncio.gather(_run_each(context, ADMIN, "@global", many), shop.submit())

    seqs = [one.task.seq for one in taken if isinstance(one, Submitted)]
    assert len(seqs) == 9
    assert min(seqs) < other.seq < max(seqs)


async def test_of_portions_the_first_of_which_is_in_each_task_that_is_left_is_told_that_the_store_is_gone(
    store, clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(store, clock=clock, most_rows=3)
    context: Any = SimpleNamespace(engine=engine)
    gone = StoreUnavailable("the database does not answer")
    async with engine.running():
        shop = Shop(engine)
        await shop.register()
        run, asked = engine.run, list[int]()

        async def fails_then(command: Any) -> Any:
            asked.append(command.rows)
            if len(asked) > 1:
                raise gone
            return await run(command)

        monkeypatch.setattr(engine, "run", fails_then)
        taken = await _run_each(context, ADMIN, "@global", [submission(id=new_id()) for _ in range(8)])
        with pytest.raises(StoreUnavailable):
            await _run_each(context, ADMIN, "@global", [submission(id=new_id()) for _ in range(8)])
        monkeypatch.undo()

        assert asked == [3, 3, 3]
        assert [isinstance(one, Submitted) for one in taken] == [True] * 3 + [False] * 5
        assert set(taken[3:]) == {gone}
        assert await count_tasks(shop) == 3


async def test_g11_two_engines_on_one_database_hand_each_task_out_once(database_url, shop) -> None:
    other_store = SqlStore(database_url)
    await other_store.open()
    other = Shop(Engine(other_store, clock=shop.engine.clock))
    async with other.engine.running():
        workers = [(shop, await shop.worker()), (other, await other.worker())]
        submitted = [*await shop.submit(200), *await other.submit(200)]

        async def claim_all(at: Shop, worker) -> list[str]:
            mine = []
            at.engine.wake({1})
            while batch := await at.claim(worker, 9):
                mine += [task.id for task in batch]
                at.engine.wake({1})
            return mine

        claimed = [t for mine in await asyncio.gather(*[claim_all(*one) for one in workers * 3]) for t in mine]

    await other_store.close()
    assert len(claimed) == len(set(claimed)) == 400
    assert set(claimed) == {task.id for task in submitted}


async def test_g11_the_same_id_and_job_at_two_engines_at_once_makes_one_of_each(database_url, shop) -> None:
    other_store = SqlStore(database_url)
    await other_store.open()
    other = Shop(Engine(other_store, clock=shop.engine.clock))

    def register(schema: str) -> RegisterJob:
        return RegisterJob(principal=ADMIN, room="a", category="tasks", name="new", schema=schema)

    async with other.engine.running():
        jobs = await asyncio.gather(
            *[at.engine.run(register('{"type": "object"}')) for at in (shop, other) for _ in range(5)]
        )
        tasks = await asyncio.gather(
            *[at.engine.run(submit(submission(id=ID))) for at in (shop, other) for _ in range(5)]
        )

    await other_store.close()
    assert sum(one.created for one in jobs) == 1
    assert len({one.job.id for one in jobs}) == 1
    assert sum(one.created for [one] in tasks) == 1


async def test_the_writer_goes_on_after_the_database_was_gone(shop, monkeypatch) -> None:
    from treadle_server.store.transaction import flush

    original = flush.insert_tasks

    async def broken(tx, new):
        raise OperationalError("INSERT", {}, Exception("disk I/O error"))

    monkeypatch.setattr(flush, "insert_tasks", broken)
    with pytest.raises(StoreUnavailable, match="disk I/O error"):
        await shop.submit()

    monkeypatch.setattr(flush, "insert_tasks", original)
    [task] = await shop.submit()
    assert task.status is Status.PENDING


async def test_a_writer_that_is_faster_twice_is_told_in_a_line_without_the_statement_and_its_values(
    shop: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    write = shop.engine.store.write
    said = Exception('duplicate key value violates "tasks_pkey"\nDETAIL: Key (id)=(secret)')
    collisions = [IntegrityError("INSERT INTO tasks (payload) VALUES ($1)", {"payload": "secret"}, said)] * 2

    @asynccontextmanager
    async def colliding(**how: Any) -> AsyncIterator[Any]:
        if collisions:
            raise collisions.pop()
        async with write(**how) as tx:
            yield tx

    monkeypatch.setattr(shop.engine.store, "write", colliding)
    caplog.set_level(logging.INFO)

    await shop.submit()

    [line] = [record.getMessage() for record in caplog.records if "faster" in record.getMessage()]
    assert line == 'another writer was faster (duplicate key value violates "tasks_pkey"), attempt 2'


async def test_a_claim_that_others_outran_each_time_can_be_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was an internal error, unlike every command."""
    worker = await shop.worker()
    await shop.submit()

    async def outrun(*_: Any) -> None:
        raise LostUpdate("tasks were changed by another writer")

    monkeypatch.setattr(shop.engine.dispatcher, "assign", outrun)
    with pytest.raises(StoreUnavailable, match=r"faster every time .*; nothing was changed, try again$"):
        await shop.claim(worker)

    monkeypatch.undo()
    assert len(await shop.claim(worker)) == 1
