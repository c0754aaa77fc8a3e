"""Commits whose answer is lost: done in the database, and nobody was told (G1, G2, G6, G7)."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import sqlalchemy as sa
from uuid_utils import uuid7

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN, Shop
from tests.engine.dispatch.test_dispatcher_waiting import SocketWorker
from tests.live.sockets import JOB, Socket, ref, submit
from tests.schedules.conftest import Ticker
from tests.servers.conftest import Site, open_site, until
from tests.servers.test_relay import NEVER, POLLS
from tests.webhooks.conftest import hook, outbox
from treadle.wire.ids import TaskId
from treadle.wire.status import Outcome, Status
from treadle_server.engine.commands import Beat, FireDue, ReportMany, RunReport
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.store.past_runs import past_runs
from treadle_server.store.store import SqlStore
from treadle_server.store.tables import tasks as task_table
from treadle_server.store.tables import workers as worker_table
from treadle_server.store.transaction.counts import queue_counts

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

ASKED = b"COMMIT\x00"
DONE = b"C\x00\x00\x00\x0bCOMMIT\x00"
"""The end of a simple query of PostgreSQL's protocol, and what the server answers when it is done."""

LONE = re.compile(rb"(__asyncpg_stmt_[^\x00]+\x00)[^\x00]*believed AS")
LONE_DONE = b"C\x00\x00\x00\x0dSELECT 1\x00"
"""How a statement that is a transaction by itself is named, and the answer when it is committed."""


class Cutter:
    """Passes bytes to PostgreSQL; when it is armed, it breaks a connection whose commit is done and not yet told."""

    def __init__(self, url: str) -> None:
        self._split = urlsplit(url)
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_armed = False
        self.cuts = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host = parse_qs(self._split.query).get("host", [self._split.hostname or "127.0.0.1"])[0]
        port = self._split.port or 5432
        if host.startswith("/"):
            from_database, to_database = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            from_database, to_database = await asyncio.open_connection(host, port)
        both = {writer, to_database}
        self._writers |= both
        asked = asyncio.Event()
        lone: set[bytes] = set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._ask(reader, to_database, asked, lone))
            group.create_task(self._answer(from_database, writer, to_database, asked))
        self._writers -= both

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: asyncio.Event, lone: set[bytes]
    ) -> None:
        try:
            while data := await reader.read(65536):
                is_lone = data.startswith(b"B") and any(name in data for name in lone)
                if self.is_armed and (is_lone or data.endswith(ASKED)):
                    asked.set()
                lone.update(LONE.findall(data))
                writer.write(data)
        except ConnectionError:
            return
        finally:
            writer.transport.abort()

    async def _answer(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        to_database: asyncio.StreamWriter,
        asked: asyncio.Event,
    ) -> None:
        try:
            while data := await reader.read(65536):
                if asked.is_set() and (DONE in data or LONE_DONE in data):
                    self.cuts += 1
                    return
                writer.write(data)
        except ConnectionError:
            return
        finally:
            writer.transport.abort()
            to_database.transport.abort()

    def close(self) -> None:
        for writer in self._writers:
            writer.transport.abort()


@pytest.fixture
async def cutter(postgres_database: str) -> AsyncIterator[tuple[Cutter, str]]:
    """A cutter, and the URL of the database through it."""
    cutter, split = Cutter(postgres_database), urlsplit(postgres_database)
    listening = await asyncio.start_server(cutter.handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    who = (split.username or "postgres") + (f":{split.password}" if split.password else "")
    yield cutter, f"postgresql://{who}@127.0.0.1:{port}{split.path}"
    listening.close()
    cutter.close()


@pytest.fixture
async def shop(cutter: tuple[Cutter, str]) -> AsyncIterator[Shop]:
    """An engine behind the cutter, with one job."""
    store = SqlStore(cutter[1])
    await store.open()
    await store.seek_exclusive()
    engine = Engine(store)
    async with engine.running():
        shop = Shop(engine)
        await shop.register()
        yield shop
    await store.close()


@asynccontextmanager
async def untold(cutter: Cutter) -> AsyncIterator[None]:
    """Let the commits of the block be done, and their answers be lost."""
    cutter.is_armed, before = True, cutter.cuts
    try:
        yield
    finally:
        cutter.is_armed = False
    assert cutter.cuts > before


async def refused(work: Any) -> None:
    async with asyncio.timeout(20):
        with pytest.raises(StoreUnavailable, match="whether it was done is unknown"):
            await work


async def counted(shop: Shop) -> tuple[int, int]:
    """Return how many tasks there are, and how many wait by the kept counts."""
    async with shop.engine.store.write() as tx:
        there = (await tx.connection.execute(sa.select(sa.func.count()).select_from(task_table))).scalar_one()
        queues = {(num, room) for num, room in await tx.connection.execute(sa.text("SELECT job_num, room FROM lanes"))}
        return int(there), sum(counts.total() for counts in (await queue_counts(tx, queues)).values())


async def test_a_submit_that_is_sent_again_is_the_first_task_g6(shop: Shop, cutter: tuple[Cutter, str]) -> None:
    task_id = TaskId(str(uuid7()))
    await shop.submit()  # from now on the job is remembered, and new tasks go by the fast path

    async with untold(cutter[0]):
        await refused(shop.submit(id=task_id))
    [again] = await shop.submit(id=task_id)
    [later] = await shop.submit()

    assert (again.id, again.status, later.seq > again.seq) == (task_id, Status.PENDING, True)
    assert await counted(shop) == (3, 3)


async def test_claims_over_http_that_nobody_was_told_of_are_handed_back_g2(
    shop: Shop, cutter: tuple[Cutter, str]
) -> None:
    worker = await shop.worker()
    [task] = await shop.submit()
    look = shop.engine.dispatcher.assign

    async def armed(*arguments: Any) -> Any:
        cutter[0].is_armed = True
        return await look(*arguments)

    shop.engine.dispatcher.assign = armed  # type: ignore[method-assign]
    await refused(shop.claim(worker))
    shop.engine.dispatcher.assign, cutter[0].is_armed = look, False  # type: ignore[method-assign]

    [again] = await shop.claim(worker)

    assert cutter[0].cuts == 1
    assert (again.id, again.run_id, again.requeue_count, again.retry_count) == (task.id, 1, 0, 0)
    assert await counted(shop) == (1, 0)


async def test_claims_of_a_slot_that_it_never_got_come_again_g2(shop: Shop, cutter: tuple[Cutter, str]) -> None:
    dispatcher = SocketWorker(shop, await shop.worker(), concurrency=1)

    async with untold(cutter[0]):
        await refused(shop.submit())
    shop.engine.slot_changed()

    await dispatcher.wait_for(1)
    assert (dispatcher.given[0].run_id, dispatcher.slot.used) == (1, 1)
    await shop.run(dispatcher.given[0])
    assert dispatcher.slot.used == 0


@pytest.mark.parametrize("starts", [True, False])
async def test_a_report_that_is_sent_again_is_taken_once(shop: Shop, cutter: tuple[Cutter, str], starts: bool) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    if not starts:
        await shop.report(task, "started")
    said = [(task.id, 0, RunReport(kind="completed", result="1", starts=starts))]

    async with untold(cutter[0]):
        await refused(shop.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said)))
    answer = await shop.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said))

    assert answer == {}
    async with shop.engine.store.read() as connection:
        ended = past_runs()
        outcomes = (await connection.execute(sa.select(ended.c.run_id, ended.c.status))).all()
    assert [tuple(one) for one in outcomes] == [(0, Outcome.COMPLETED)]
    assert await counted(shop) == (1, 0)


async def test_a_beat_that_is_sent_again_answers_the_lease_that_is_kept_l3(
    shop: Shop, cutter: tuple[Cutter, str]
) -> None:
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    await shop.report(task, "started")
    beat = Beat(principal=ADMIN, worker_id=worker)
    heard = sa.select(worker_table.c.last_heartbeat)
    async with shop.engine.store.read() as connection:
        before = (await connection.execute(heard)).scalar_one()

    async with untold(cutter[0]):
        await refused(shop.engine.run(beat))
    async with shop.engine.store.read() as connection:
        meanwhile = (await connection.execute(heard)).scalar_one()
    answer = await shop.engine.run(beat)

    assert meanwhile > before
    assert (answer.cancel, answer.pause, answer.gone) == ([], [], [])
    assert [(one.id, one.taken_until) for one in answer.taken_until] == [
        (task.id, (await shop.get(task.id)).taken_until)
    ]


async def test_an_outcome_whose_report_is_sent_again_is_owed_to_a_webhook_once_e12(
    shop: Shop, cutter: tuple[Cutter, str]
) -> None:
    await hook(shop.engine, "http://127.0.0.1:9")
    worker = await shop.worker()
    await shop.submit()
    [task] = await shop.claim(worker)
    said = [(task.id, 0, RunReport(kind="completed", starts=True))]

    async with untold(cutter[0]):
        await refused(shop.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said)))
    assert await shop.engine.run(ReportMany(principal=ADMIN, worker_id=worker, reports=said)) == {}

    assert [one.status for one in await outbox(shop.engine)] == ["completed"]


async def test_a_tick_whose_commit_was_not_answered_makes_one_task_e10(shop: Shop, cutter: tuple[Cutter, str]) -> None:
    await Ticker(shop, FakeClock()).set(interval_seconds=3600.0)
    async with shop.engine.store.write() as tx:
        await tx.connection.execute(sa.text("UPDATE schedules SET next_at = next_at - interval '1 hour 1 second'"))

    async with untold(cutter[0]):
        await refused(shop.engine.run(FireDue()))
    fired = await shop.engine.run(FireDue())

    assert fired == 0
    assert await counted(shop) == (1, 1)


# With everything around it


@pytest.fixture
async def site(cutter: tuple[Cutter, str], tmp_path: Path) -> AsyncIterator[Site]:
    """A server behind the cutter."""
    async with AsyncExitStack() as stack:
        yield await open_site(stack, cutter[1], tmp_path / "data")


async def opened(site: Site) -> Socket:
    socket = await site.socket()
    await socket.call("open", worker={"concurrency": 1}, jobs=[JOB], prefetch=0)
    return socket


async def test_who_was_not_told_is_told_to_read_anew_and_the_worker_goes_on_g7(
    site: Site, cutter: tuple[Cutter, str]
) -> None:
    """A report whose commit was not answered is done: observers, waiting clients and the worker's room follow."""
    worker, client, observer = await opened(site), await site.socket(), await site.socket()
    tasks = await submit(client, 2, wait=True)
    [claim] = await worker.claims(1)
    await observer.call("every", on=True)
    report = {**ref(claim), "kind": "completed", "starts": True, "result": 1}

    async with untold(cutter[0]):
        assert (await worker.ask("reports", reports=[report]))["problem"]["status"] == 503
    await observer.pushed("reload")
    result = (await client.pushed("result"))["tasks"]
    answers = (await worker.call("reports", reports=[report]))["answers"]

    assert [(one["id"], one["status"]) for one in result] == [(tasks[0]["id"], "completed")]
    assert [answer["status"] for answer in answers] == [200]
    assert [one["id"] for one in await worker.claims(1)] == [tasks[1]["id"]]


async def test_another_server_is_told_to_read_anew_what_nobody_was_told_of_g7_g11(
    cutter: tuple[Cutter, str], postgres_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the server whose commit was not answered, and not by a poll."""
    for name in POLLS:
        monkeypatch.setattr(f"treadle_server.{name}", NEVER)
    async with AsyncExitStack() as stack:
        first = await open_site(stack, cutter[1], tmp_path / "data")
        second = await open_site(stack, postgres_database, tmp_path / "data")
        for site in (first, second):
            site.relay.note_peers(are_there=True)
        worker, client, observer = await opened(first), await second.socket(), await second.socket()
        [task] = await submit(client, wait=True)
        [claim] = await worker.claims(1)
        await observer.call("every", on=True)
        await until(lambda: first.engine.hub.each)
        report = {**ref(claim), "kind": "completed", "starts": True, "result": 1}

        async with untold(cutter[0]):
            assert (await worker.ask("reports", reports=[report]))["problem"]["status"] == 503

        await observer.pushed("reload")
        assert [one["id"] for one in (await client.pushed("result"))["tasks"]] == [task["id"]]
