"""What the server refuses for good stays with its problem, harms no other row, and is tried again or dropped (F6)."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.worker.outbox.conftest import note, rows, strict, submitted, write
from tests.worker.proxies import proxy_to
from treadle import Client, Options, outbox
from treadle.ids import new_id
from treadle.outbox import Relay
from treadle.outbox.table import TABLE
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

SAME = "0199aaaa-0000-7000-8000-000000000001"
OTHER = "0199aaaa-0000-7000-8000-000000000002"


async def alter(shop: AsyncEngine, task_id: str, **values: Any) -> None:
    async with shop.begin() as connection:
        await connection.execute(sa.update(TABLE).where(TABLE.c.id == task_id).values(**values))


async def problems(shop: AsyncEngine) -> dict[str, str]:
    return {row.id: json.loads(row.problem)["type"].rsplit("/", 1)[1] for row in await rows(shop)}


async def test_f6_each_kind_of_refusal_is_noted_and_the_rows_around_it_are_handed_over(
    shop: AsyncEngine, client: Client
) -> None:
    await client.submit(note.bind(100, options=Options(id=SAME)))
    ids = await write(shop, range(9))
    await alter(shop, ids[1], body='{"payload": {"n": "no number"}}')
    await alter(shop, ids[2], job="@global:tasks:nobody", registration=None)
    await alter(shop, ids[3], id=SAME)
    await alter(shop, ids[4], body="{")
    await alter(shop, ids[5], body='{"payload": {}, "id": "x"}')
    await alter(shop, ids[6], body='{"payload": {"n": 6}, "priority": "high"}')
    await alter(shop, ids[7], body="[" * 100_000 + "]" * 100_000)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (2, 7, 0)
    assert await submitted(client) == [100, 0, 8]
    assert await problems(shop) == {
        ids[1]: "invalid-payload",
        ids[2]: "job-not-found",
        SAME: "task-conflict",
        ids[4]: "validation-error",
        ids[5]: "validation-error",
        ids[6]: "validation-error",
        ids[7]: "validation-error",
    }
    assert (await Relay(shop, client=client).run_once()).refused == 0


@pytest.mark.parametrize("registration", ["{", "[1]", '"x"', "7", "[" * 100_000 + "]" * 100_000])
async def test_f6_what_registers_nothing_is_noted_and_the_rows_around_it_are_handed_over(
    shop: AsyncEngine, client: Client, registration: str
) -> None:
    ids = await write(shop, range(3))
    await alter(shop, ids[1], job="@global:tasks:nobody", registration=registration)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (2, 1, 0)
    assert await problems(shop) == {ids[1]: "validation-error"}


@pytest.mark.parametrize(
    "written",
    [
        {"room": "a/b"},
        {"room": "@global/.."},
        {"registration": "{}"},
        {"registration": '{"name": "nobody"}'},
        {"registration": '{"room": "a/b", "category": "tasks", "name": "nobody", "schema": {}}'},
    ],
)
async def test_f6_what_leads_nowhere_over_plain_http_is_refused_alone(
    tmp_path: Path, server: Served, written: dict[str, str]
) -> None:
    """The room is a part of the path there: one row with another one kept all rows from being handed over."""
    shop = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with shop.begin() as connection:
        outbox.create_table(connection)
        _, bad, _ = outbox.submit_many_sync(connection, [note.bind(n) for n in range(3)])
        values = {"job": "@global:tasks:nobody", **written}
        connection.execute(sa.update(TABLE).where(TABLE.c.id == bad).values(values))
    async with proxy_to(server.url) as proxy, Client(proxy.url, server.token, patience=0, default=False) as far:
        proxy.refuses_sockets = True

        swept = await Relay(shop, client=far).run_once()

    shop.dispose()
    assert (swept.handed, swept.refused, swept.left) == (2, 1, 0)


async def test_f6_a_row_without_a_registration_is_handed_over_behind_one_that_registers_its_job(
    shop: AsyncEngine, client: Client
) -> None:
    """A program in another language writes rows of the same job; both are taken at once."""
    ids = await write(shop, range(3))
    await alter(shop, ids[1], registration=None)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused) == (3, 0)
    assert await submitted(client) == [0, 1, 2]


@pytest.mark.parametrize("written", ["'soon'", "1795649832", "''", "'2026-11-25T23:50:32+01:00'"])
async def test_f6_what_is_no_instant_in_sqlite_keeps_no_row_from_being_handed_over_or_listed(
    tmp_path: Path, client: Client, written: str
) -> None:
    """A program in another language writes the rows; SQLite takes whatever it is given."""
    path = tmp_path / "shop.db"
    insert = f"INSERT INTO treadle_outbox (id, room, job, body, created_at) VALUES (?, '@global', ?, ?, {written})"
    shop = sa.create_engine(f"sqlite:///{path}")
    with shop.begin() as connection:
        outbox.create_table(connection)
        for task_id, body in ((SAME, '{"payload": {"n": 1}}'), (OTHER, "{")):
            connection.exec_driver_sql(insert, (task_id, note.full_name, body))
    await client.register(note)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (1, 1, 0)
    with shop.connect() as connection:
        [refused] = outbox.listed(connection).rows
    shop.dispose()
    assert refused.id == OTHER
    assert (refused.created_at is not None) is ("T" in written)


@pytest.mark.parametrize("written", ["'12000-01-01 00:00:00'", "'infinity'", "'0044-03-15 00:00:00 BC'"])
async def test_f6_what_is_no_time_in_python_keeps_no_row_from_being_handed_over_or_listed(
    shop: AsyncEngine, client: Client, written: str
) -> None:
    """PostgreSQL has such times, and milliseconds that are taken for seconds give them; its drivers fail on them."""
    ids = await write(shop, range(3))
    created_at = sa.literal_column(written)
    await alter(shop, ids[0], created_at=created_at)
    await alter(shop, ids[1], created_at=created_at, body="{")

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (2, 1, 0)
    async with shop.connect() as connection:
        [refused] = (await connection.run_sync(outbox.listed)).rows
    assert (refused.id, refused.created_at) == (ids[1], None)


@pytest.mark.parametrize("written", ["''", "'none'", "'[1]'", "7", "x'ff'"])
async def test_f6_what_is_no_problem_keeps_no_row_from_being_handed_over_or_listed(
    tmp_path: Path, client: Client, written: str
) -> None:
    """An ORM writes an empty text where nothing is to stand; nothing behind such a row was handed over any more."""
    insert = (
        "INSERT INTO treadle_outbox (id, room, job, body, created_at, refused_at, problem)"
        f" VALUES (?, '@global', ?, ?, CURRENT_TIMESTAMP, ?, {written})"
    )
    shop = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with shop.begin() as connection:
        outbox.create_table(connection)
        for task_id, refused_at in ((SAME, None), (OTHER, "2026-11-30 01:02:03")):
            connection.exec_driver_sql(insert, (task_id, note.full_name, '{"payload": {"n": 1}}', refused_at))
    await client.register(note)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (1, 0, 0)
    with shop.connect() as connection:
        [refused] = outbox.listed(connection).rows
    shop.dispose()
    assert refused.id == OTHER
    assert refused.problem is None or refused.problem["detail"]


@pytest.mark.parametrize("column", ["id", "room", "job", "body", "registration", "created_at", "problem"])
@pytest.mark.parametrize("driver", ["sqlite", "sqlite+aiosqlite"])
async def test_f6_what_is_no_utf_8_in_sqlite_is_refused_alone(
    tmp_path: Path, client: Client, column: str, driver: str
) -> None:
    """A program in another language writes a row; nothing of the outbox was handed over or listed any more."""
    shop = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with shop.begin() as connection:
        outbox.create_table(connection)
        _, bad, _ = outbox.submit_many_sync(connection, [note.bind(n) for n in range(3)])
        written = {"seq": 2, column: sa.cast(b"caf\xe9", sa.Text)}
        connection.execute(sa.update(TABLE).where(TABLE.c.id == bad).values(written))
    harms = column not in {"created_at", "problem"}

    swept = await Relay(f"{driver}:///{tmp_path / 'shop.db'}", client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (2, 1, 0) if harms else (3, 0, 0)
    assert await submitted(client) == ([0, 2] if harms else [0, 1, 2])
    with shop.begin() as connection:
        refused = outbox.listed(connection)
        assert (refused.waiting, refused.refused) == (0, int(harms))
        assert [row.problem and row.problem["detail"] for row in refused.rows] == [
            f"the row's {column} is not UTF-8"
        ] * harms
        assert outbox.drop(connection, None) == harms
    shop.dispose()


async def test_a_row_whose_id_stands_in_sqlite_as_bytes_is_handed_over_once(tmp_path: Path, client: Client) -> None:
    shop = sa.create_engine(f"sqlite:///{tmp_path / 'shop.db'}")
    with shop.begin() as connection:
        outbox.create_table(connection)
        given = outbox.submit_sync(connection, note.bind(1))
        connection.execute(sa.update(TABLE).values(id=sa.cast(given.encode(), sa.LargeBinary)))

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused) == (1, 0)
    assert (await Relay(shop, client=client).run_once()).handed == 0
    shop.dispose()


async def test_a_row_too_large_for_a_request_is_refused_alone(shop: AsyncEngine, client: Client) -> None:
    async with shop.begin() as connection:
        bounds = [note.bind(1), note.bind(2, "x" * 17_000_000), note.bind(3)]
        [_, large, _] = await outbox.submit_many(connection, bounds)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused) == (2, 1)
    assert list(await problems(shop)) == [large]
    assert await submitted(client) == [1, 3]


async def test_what_the_token_does_not_allow_is_refused_by_the_row(
    shop: AsyncEngine, server: Served, client: Client
) -> None:
    """The job is missing, and may not be registered: the row says that there is none."""
    made = await client.create_token("narrow", scopes=["queue:create-task:@global/*"])
    await write(shop, [1])

    async with Client(server.url, made.token, default=False) as narrow:
        swept = await Relay(shop, client=narrow).run_once()

    assert swept.refused == 1
    assert set((await problems(shop)).values()) == {"job-not-found"}


async def test_f6_refused_rows_are_listed_tried_again_and_dropped(shop: AsyncEngine, client: Client) -> None:
    first, second, third = await write(shop, range(3))
    async with shop.begin() as connection:
        mended = await outbox.submit(connection, strict.bind(9))
    for task_id in (first, second):
        await alter(shop, task_id, job="@global:tasks:nobody", registration=None)
    await Relay(shop, client=client).run_once()
    await write(shop, [4])

    async with shop.begin() as connection:
        refused = await connection.run_sync(outbox.listed)
        waiting = await connection.run_sync(lambda given: outbox.listed(given, waiting=True))
    assert (refused.waiting, refused.refused) == (1, 2)
    assert [(row.id, row.problem and row.problem["status"]) for row in refused.rows] == [(first, 404), (second, 404)]
    assert refused.rows[0].refused_at is not None
    assert [json.loads(row.body)["payload"]["n"] for row in waiting.rows] == [4]

    async with shop.begin() as connection:
        assert await connection.run_sync(outbox.drop, [second, third]) == 1
        assert await connection.run_sync(outbox.retry, [UUID(first)]) == 1
        assert await connection.run_sync(outbox.retry, None) == 0
    await alter(shop, first, job="@global:tasks:note")
    assert (await Relay(shop, client=client).run_once()).handed == 2

    assert await rows(shop) == []
    assert await submitted(client) == [2, 9, 0, 4]
    assert (await client.get(mended)).job_name == "@global:tasks:strict"


@pytest.mark.parametrize("change", [outbox.retry, outbox.drop])
async def test_a_refused_row_whose_id_is_written_in_capitals_is_meant_by_it(shop: AsyncEngine, change: Any) -> None:
    """Other languages write a UUID so; it was listed, and to retry and to drop there was none."""
    [task_id] = await write(shop, [1])
    await alter(shop, task_id, id=task_id.upper(), refused_at=sa.func.now())

    async with shop.begin() as connection:
        assert await connection.run_sync(change, [task_id.upper()]) == 1
        assert await connection.run_sync(change, [task_id.upper()]) == 0


@pytest.mark.parametrize("change", [outbox.retry, outbox.drop])
async def test_more_refused_rows_are_changed_than_a_statement_has_parameters(shop: AsyncEngine, change: Any) -> None:
    ids = await write(shop, range(3))
    async with shop.begin() as connection:
        await connection.execute(sa.update(TABLE).values(refused_at=sa.func.now()))

        changed = await connection.run_sync(change, [ids[0], *(new_id() for _ in range(40_000)), ids[0], ids[2]])

    assert changed == 2


async def test_what_waits_is_not_dropped(shop: AsyncEngine) -> None:
    [waiting] = await write(shop, [1])

    async with shop.begin() as connection:
        assert await connection.run_sync(outbox.drop, [waiting]) == 0
        assert await connection.run_sync(outbox.drop, None) == 0

    assert [row.id for row in await rows(shop)] == [waiting]


async def test_g6_two_rows_with_one_id_and_content_are_one_task(shop: AsyncEngine, client: Client) -> None:
    for _ in range(2):
        await write(shop, [1], options=Options(id=SAME))

    assert (await Relay(shop, client=client).run_once()).handed == 2
    assert await submitted(client) == [1]
    assert await rows(shop) == []
