"""The relay hands every row over once and in order, whatever is away meanwhile (F6, G6)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from tests.waiting import turns, until
from tests.worker.outbox.conftest import create_all, emptied, note, rows, submitted, write
from tests.worker.proxies import proxy_to
from treadle import Client, Options, outbox
from treadle.client.submit_batcher import SubmitBatcher
from treadle.errors import ConnectionFailed, NoOutbox, TooManyRequests, Unauthorized, problem_named
from treadle.outbox import Relay, Swept, handing, relay
from treadle.outbox import rows as outbox_rows
from treadle.outbox.table import TABLE
from treadle.settings import InvalidSetting
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio


class Killed(BaseException):
    """What stands for kill -9 within the test's own process."""


async def test_f6_rows_become_tasks_in_their_order_and_are_deleted(shop: AsyncEngine, client: Client) -> None:
    ids = await write(shop, range(25), options=Options(priority=2))

    swept = await Relay(shop, client=client, batch=10).run_once()

    assert (swept.handed, swept.refused, swept.left) == (25, 0, 0)
    assert await submitted(client) == list(range(25))
    assert await rows(shop) == []
    task = await client.get(ids[7])
    assert (task.payload["n"], task.priority, task.job_name) == (7, 2, "@global:tasks:note")


async def test_rows_of_several_rooms_come_in_their_order(shop: AsyncEngine, client: Client) -> None:
    for n, room in enumerate(["lab", "lab", "den", "lab", "den"]):
        await write(shop, [n], room=room)

    await Relay(shop, client=client).run_once()

    assert await submitted(client) == list(range(5))
    assert [item.payload["n"] async for item in client.list(room="den")] == [4, 2]


@pytest.mark.parametrize("point", ["before", "after"])
async def test_f6_g6_who_dies_beside_the_hand_over_leaves_each_row_for_once(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    await write(shop, range(10))
    hand_over = relay.hand_over

    async def dies(*given: Any) -> Any:
        if point == "after":
            await hand_over(*given)
        raise Killed

    monkeypatch.setattr(relay, "hand_over", dies)
    with pytest.raises(Killed):
        await Relay(shop, client=client).run_once()
    assert len(await rows(shop)) == 10
    assert len(await submitted(client)) == (10 if point == "after" else 0)
    monkeypatch.undo()

    assert (await Relay(shop, client=client).run_once()).handed == 10
    assert await submitted(client) == list(range(10))


async def test_a_server_that_is_away_is_waited_for(shop: AsyncEngine, server: Served, client: Client) -> None:
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token, patience=0, default=False) as far:
        proxy.is_down = True
        await write(shop, range(3))
        async with Relay(shop, client=far, interval=0.01):
            await asyncio.wait_for(proxy.was_refused.wait(), 60)
            assert len(await rows(shop)) == 3
            proxy.is_down = False
            await emptied(shop)

    assert await submitted(client) == [0, 1, 2]


async def test_it_goes_over_plain_http_where_no_socket_opens(shop: AsyncEngine, server: Served, client: Client) -> None:
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token, patience=0, default=False) as far:
        proxy.refuses_sockets = True
        await write(shop, range(3))
        await Relay(shop, client=far).run_once()

        assert far.is_plain
    assert await submitted(client) == [0, 1, 2]


async def test_a_token_that_is_refused_marks_no_row(shop: AsyncEngine, server: Served, client: Client) -> None:
    await write(shop, range(3))

    async with Client(server.url, "nobody", patience=0, default=False) as stranger:
        with pytest.raises(Unauthorized):
            await Relay(shop, client=stranger).run_once()

    assert [row.refused_at for row in await rows(shop)] == [None] * 3


async def test_a_row_that_must_wait_lets_the_others_by(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = await write(shop, range(3))
    add = SubmitBatcher.add

    async def busy(self: SubmitBatcher, room: str, item: dict[str, Any], *, wait: bool) -> Any:
        if item["id"] == ids[0]:
            raise TooManyRequests(problem_named("too-many-requests", "not now"))
        return await add(self, room, item, wait=wait)

    monkeypatch.setattr(SubmitBatcher, "add", busy)
    swept = await Relay(shop, client=client).run_once()
    monkeypatch.undo()

    assert (swept.handed, swept.refused, swept.left) == (2, 0, 1)
    assert "not now" in str(swept.why)
    assert [row.id for row in await rows(shop)] == ids[:1]
    assert (await Relay(shop, client=client).run_once()).handed == 1


async def test_f6_two_relays_hand_over_each_row_once(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where rows can be locked the second takes those behind the first one's; elsewhere both bring the same (G6)."""
    await write(shop, range(6))
    hand_over, brought = relay.hand_over, list[list[int]]()
    first_is_there, go_on = asyncio.Event(), asyncio.Event()

    async def slow(client: Client, found: Any) -> Any:
        brought.append([row.seq for row in found])
        if len(brought) == 1:
            first_is_there.set()
            await go_on.wait()
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", slow)
    first = asyncio.create_task(Relay(shop, client=client, batch=4).run_once())
    await first_is_there.wait()
    async with asyncio.timeout(20):  # it waits for nobody's locks
        second = await Relay(shop, client=client, batch=4).run_once()
    go_on.set()
    await first

    assert brought[0] == [1, 2, 3, 4]
    assert brought[1] == ([5, 6] if shop.dialect.name == "postgresql" else [1, 2, 3, 4])
    assert second.handed == (2 if shop.dialect.name == "postgresql" else 6)
    assert sorted(await submitted(client)) == list(range(6))
    assert await rows(shop) == []


async def test_nobody_waits_for_the_server_in_order_to_write(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On SQLite neither where each transaction takes the lock at once, as programs do that would else lose one."""
    if shop.dialect.name == "sqlite":
        event.listen(shop.sync_engine, "connect", without_begin)
        event.listen(shop.sync_engine, "begin", lambda begun: begun.exec_driver_sql("BEGIN IMMEDIATE"))
        await shop.dispose()
    await write(shop, range(2))
    hand_over = relay.hand_over

    async def writes(client: Client, found: Any) -> Any:
        if found[0].seq == 1:
            async with asyncio.timeout(30):
                await write(shop, [2])
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", writes)
    for _ in range(2):
        await Relay(shop, client=client, batch=2).run_once()

    assert await submitted(client) == [0, 1, 2]


def without_begin(connection: Any, _record: object) -> None:
    """Leave the beginning of transactions to SQLAlchemy's events, and ask for a lock but once."""
    connection.isolation_level = None
    connection.execute("PRAGMA busy_timeout=0")


async def test_a_number_that_is_given_anew_deletes_no_other_row(shop: AsyncEngine, client: Client) -> None:
    ids = await write(shop, range(2))
    async with shop.begin() as connection:
        stale = await connection.run_sync(outbox_rows.take, TABLE, 0, 2, 10)
        await connection.execute(sa.update(TABLE).where(TABLE.c.id == ids[0]).values(id="another"))
        await connection.run_sync(outbox_rows.note_outcomes, TABLE, stale, [])

    assert [row.id for row in await rows(shop)] == ["another"]


async def test_long_bodies_are_taken_a_few_at_a_time(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox_rows, "MOST_CHARACTERS", 3000)
    async with shop.begin() as connection:
        await outbox.submit_many(
            connection, [note.bind(n, "x" * size) for n, size in enumerate((1400, 1400, 1400, 9000, 1))]
        )
        taken, after = [], 0
        while (found := await connection.run_sync(outbox_rows.take, TABLE, after, 5, 100)) and len(taken) < 5:
            taken.append(len(found))
            after = found[-1].seq

    assert taken == [2, 1, 1, 1]


async def test_f6_what_is_handed_over_at_once_gets_through_a_slow_line_in_a_minute(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More took longer, again and again: no row was ever handed over."""
    hand_over, sizes = relay.hand_over, list[int]()

    async def weigh(client: Client, found: Any) -> Any:
        sizes.append(sum(len(row.body) for row in found))
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", weigh)
    async with shop.begin() as connection:
        await outbox.submit_many(connection, [note.bind(n, "x" * 150_000) for n in range(20)])

    assert (await Relay(shop, client=client).run_once()).handed == 20

    slow = 30_000  # bytes a second
    assert max(sizes) < handing.SECONDS * slow


async def test_f6_a_row_that_is_committed_late_is_handed_over_while_others_keep_coming(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction began before others and took longer: as long as rows kept coming it waited, without an end."""
    hand_over, brought = relay.hand_over, list[int]()

    async def busy(client: Client, found: Any) -> Any:
        brought.extend(row.seq for row in found)
        if len(brought) < 50:
            await write(shop, [len(brought)])
        if brought[-1] == 3:
            async with shop.begin() as connection:
                late = await outbox.submit(connection, note.bind(0))
                await connection.execute(sa.update(TABLE).where(TABLE.c.id == late).values(seq=-1))
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", busy)
    await write(shop, range(3))
    async with Relay(shop, client=client, batch=1):
        await until(lambda: -1 in brought)

    assert brought.index(-1) == 3


async def test_one_sweep_ends_while_rows_keep_coming(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It hands over what waits at this moment: `treadle outbox --once` never ended beside a busy program."""
    hand_over, brought = relay.hand_over, list[int]()

    async def busy(client: Client, found: Any) -> Any:
        brought.extend(row.seq for row in found)
        if len(brought) < 50:
            await write(shop, range(3))
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", busy)
    await write(shop, range(3))

    assert (await Relay(shop, client=client, batch=2).run_once()).handed == 3


async def test_beside_an_app_it_runs_as_its_lifespan_and_ends_with_it(shop: AsyncEngine, client: Client) -> None:
    relay_ = Relay(shop, client=client, interval=0.01)
    for n in range(2):
        async with relay_.lifespan(object()):
            await write(shop, [n])
            await emptied(shop)
    await write(shop, [2])

    assert await submitted(client) == [0, 1]
    assert len(await rows(shop)) == 1


async def test_it_opens_a_client_of_its_own_that_is_nobody_else_s(
    shop: AsyncEngine, server: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_URL", server.url)
    monkeypatch.setenv("TREADLE_TOKEN", server.token)
    await write(shop, range(2))

    async with Relay(shop, interval=0.01):
        await emptied(shop)
        from treadle import current_client

        assert current_client() is client


@pytest.mark.parametrize(("name", "value"), [("TREADLE_URL", "ftp://x"), ("TREADLE_TOKEN", "a token")])
async def test_beside_an_app_an_invalid_setting_is_raised_when_it_begins(
    shop: AsyncEngine, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    """The app ran without a relay, and was told of it when it ended."""
    monkeypatch.setenv(name, value)
    is_running = False

    with pytest.raises(InvalidSetting, match=name):
        async with Relay(shop):
            is_running = True

    assert not is_running


async def test_what_was_stopped_hands_over_when_it_is_asked_again(shop: AsyncEngine, client: Client) -> None:
    """It said that no row was there."""
    relay_ = Relay(shop, client=client)
    async with relay_:
        await write(shop, [1])
        await emptied(shop)
    await write(shop, [2])

    assert (await relay_.run_once()).handed == 1


def test_in_another_event_loop_it_is_no_more_in_a_hurry_than_in_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It took itself for stopped there, and left what took more than the five seconds of its grace."""
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    relay_ = Relay(engine, client=Client("http://localhost:1", "x"))

    async def hand_over(_: Client, found: Any) -> Any:
        await turns(5)
        return relay.HandingOutcome(handed=found)

    monkeypatch.setattr(relay, "GRACE", 0.0)
    monkeypatch.setattr(relay, "hand_over", hand_over)
    handed = []
    for n in range(2):
        with engine.begin() as connection:
            outbox.create_table(connection)
            outbox.submit_sync(connection, note.bind(n))
        handed.append(asyncio.run(relay_.run_once()).handed)
    engine.dispose()

    assert handed == [1, 1]


async def test_an_engine_that_is_not_async_is_served_aside(tmp_path: Path, client: Client) -> None:
    engine = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    with engine.begin() as connection:
        create_all(connection)
        outbox.submit_many_sync(connection, [note.bind(n) for n in range(3)])

    assert (await Relay(engine, client=client).run_once()).handed == 3
    assert (await Relay(engine.url, client=client).run_once()).handed == 0
    engine.dispose()


async def test_an_engine_whose_tables_stand_in_another_schema_is_served(tmp_path: Path, client: Client) -> None:
    """Each customer has one: the relay said that there is no table, and rows were written there."""
    plain = sa.create_engine(f"sqlite:///{tmp_path}/shop.db")
    event.listen(plain, "connect", lambda made, _: made.execute(f"ATTACH '{tmp_path}/one.db' AS customer"))
    engine = plain.execution_options(schema_translate_map={None: "customer"})
    with engine.begin() as connection:
        create_all(connection)
        outbox.submit_sync(connection, note.bind(1))
        assert outbox.listed(connection, waiting=True).waiting == 1

    assert (await Relay(engine, client=client).run_once()).handed == 1
    plain.dispose()


async def test_a_database_that_is_not_there_yet_is_waited_for(
    tmp_path: Path, client: Client, caplog: pytest.LogCaptureFixture
) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/later/shop.db"
    async with Relay(url, client=client, interval=0.01):
        await until(lambda: "unable to open database file" in caplog.text)
        (tmp_path / "later").mkdir()
        await until(lambda: "the database has no table treadle_outbox: create it" in caplog.text)
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(create_all)
        await write(engine, range(3))
        await emptied(engine)
        await engine.dispose()

    assert await submitted(client) == [0, 1, 2]


async def test_a_relay_that_is_stopped_while_the_server_is_silent_ends_and_leaves_the_rows(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = asyncio.Event()

    async def silent(*_: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(relay, "hand_over", silent)
    monkeypatch.setattr(relay, "GRACE", 0.01)
    await write(shop, range(2))
    async with Relay(shop, client=client, interval=0.01):
        await asked.wait()

    assert len(await rows(shop)) == 2


async def test_f6_rows_whose_numbers_were_given_are_handed_over_whatever_they_are(
    shop: AsyncEngine, client: Client
) -> None:
    """A number of 0, as a program has it that means none, made the row wait for ever."""
    await write(shop, range(3))
    async with shop.begin() as connection:
        for before, after in ((2, 0), (3, -7)):
            await connection.execute(sa.update(TABLE).where(TABLE.c.seq == before).values(seq=after))

    await Relay(shop, client=client).run_once()

    assert await submitted(client) == [2, 1, 0]
    assert await rows(shop) == []


async def test_a_defect_is_logged_and_the_relay_goes_on(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hand_over, broken = relay.hand_over, [KeyError("odd")]

    async def fails_once(*given: Any) -> Any:
        if broken:
            raise broken.pop()
        return await hand_over(*given)

    monkeypatch.setattr(relay, "hand_over", fails_once)
    await write(shop, range(2))
    async with Relay(shop, client=client, interval=0.01):
        await emptied(shop)

    assert "KeyError: 'odd'" in caplog.text


async def test_without_a_server_one_sweep_says_so_and_without_a_table_too(shop: AsyncEngine, tmp_path: Path) -> None:
    await write(shop, range(2))
    async with serve() as gone:
        pass
    async with Client(gone.url, "x", patience=0, default=False) as client:
        with pytest.raises(ConnectionFailed):
            await Relay(shop, client=client).run_once()
        with pytest.raises(NoOutbox, match="has no table treadle_outbox: create it"):
            await Relay(f"sqlite:///{tmp_path}/empty.db", client=client).run_once()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"database": "nonsense"}, InvalidSetting, "the outbox's database can't be used"),
        ({"database": "postgresql://a:port/b"}, InvalidSetting, "the outbox's database can't be used"),
        ({"database": "martian://a"}, InvalidSetting, "the outbox's database can't be used"),
        ({"database": "oracle+cx_oracle://x"}, InvalidSetting, "needs the driver cx_Oracle, which is not installed"),
        ({"database": "sqlite://", "batch": 0}, ValueError, "batch must be a number of rows from 1 to 1000"),
        ({"database": "sqlite://", "interval": 0}, ValueError, "more than 0 seconds, not 0"),
    ],
)
def test_what_can_t_be_used_is_said_at_once(given: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Relay(**given)


@pytest.mark.parametrize("url", ["me:hidden@db/shop", "me@db/shop?password=hidden"])
def test_a_relay_is_told_of_without_the_database_s_password(url: str) -> None:
    told = repr(Relay(f"postgresql+asyncpg://{url}"))

    assert "@db/shop" in told
    assert "hidden" not in told


async def test_f6_rows_that_must_wait_do_not_keep_others_waiting(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one waited for a full limit, those that came later were looked for ever more seldom, each five seconds."""
    relay_ = Relay(shop, client=client, interval=0.01)
    pauses: list[float] = []

    async def sweep(_: Relay, __: Client) -> Swept:
        return Swept(handed=len(pauses) % 2, left=1)

    async def pause(_: Relay, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 20:
            relay_.stop()

    monkeypatch.setattr(Relay, "_sweep", sweep)
    monkeypatch.setattr(Relay, "_pause", pause)
    await relay_.run()

    assert set(pauses[1::2]) == {0.01}
    assert max(pauses[::2]) <= 0.1, "each is the first of a series"
