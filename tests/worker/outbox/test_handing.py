"""How rows are handed over where the server takes its time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.worker.outbox.conftest import note, rows, submitted, write
from treadle import Client, Options, outbox
from treadle.client.submit_batcher import SubmitBatcher
from treadle.errors import ConnectionFailed, InvalidArguments, TooManyRequests, problem_named
from treadle.outbox import Relay, handing, relay
from treadle.outbox import rows as outbox_rows
from treadle.outbox.table import TABLE

pytestmark = pytest.mark.anyio

SAME = "0199aaaa-0000-7000-8000-000000000001"


async def test_what_was_handed_over_before_the_time_was_up_is_not_handed_over_again(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of many rooms, each a request to a server far away, were all begun anew each minute, for ever."""
    limits = noted_limits(monkeypatch)
    add = SubmitBatcher.add

    async def silent_of_den(batcher: SubmitBatcher, room: str, *given: Any, **named: Any) -> Any:
        if room != "den":
            return await add(batcher, room, *given, **named)
        limits[-1].reschedule(asyncio.get_running_loop().time())
        return await asyncio.Event().wait()

    monkeypatch.setattr(SubmitBatcher, "add", silent_of_den)
    for room in ("lab", "den", "lab"):
        await write(shop, [1], room=room)

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (1, 0, 2)
    assert swept.why == "the server took more than 60 s for 3 rows"
    with pytest.raises(ConnectionFailed, match="more than 60 s for 2 rows"):
        await Relay(shop, client=client).run_once()


@pytest.mark.parametrize("batch", [1, 2, 10])
async def test_f6_a_row_behind_one_that_must_wait_is_not_refused_for_depending_on_it(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch, batch: int
) -> None:
    """The server knew no such task yet, and the row stayed refused after it did."""
    [first] = await write(shop, [1])
    [second] = await write(shop, [2], options=Options(depends_on={"n": first.upper()}))
    [third] = await write(shop, [3], options=Options(depends_on={"n": [second, first]}))
    [fourth] = await write(shop, [4], options=Options(depends_on={"n": [first, SAME]}))
    await write(shop, [5])
    add = SubmitBatcher.add

    async def busy(batcher: SubmitBatcher, room: str, item: dict[str, Any], **named: Any) -> Any:
        if item["id"] == first:
            raise TooManyRequests(problem_named("too-many-requests", "not now"))
        return await add(batcher, room, item, **named)

    monkeypatch.setattr(SubmitBatcher, "add", busy)
    swept = await Relay(shop, client=client, batch=batch).run_once()
    monkeypatch.undo()

    assert (swept.handed, swept.refused, swept.left) == (1, 0, 4)
    swept = await Relay(shop, client=client, batch=batch).run_once()
    assert (swept.handed, swept.refused, swept.left) in {(3, 1, 0), (3, 0, 1)}
    await Relay(shop, client=client, batch=batch).run_once()
    assert [(row.id, row.refused_at is None) for row in await rows(shop)] == [(fourth, False)], "there is no such task"
    assert await submitted(client) == [5, 1, 2, 3]
    assert (await client.get(third)).payload["n"] == 3


async def test_f6_a_row_behind_one_that_another_relay_has_is_not_refused_for_depending_on_it(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first] = await write(shop, [1])
    await write(shop, [2], options=Options(depends_on={"n": first}))
    hand_over = relay.hand_over
    first_is_there, go_on = asyncio.Event(), asyncio.Event()

    async def slow(client: Client, found: Any) -> Any:
        if not first_is_there.is_set():
            first_is_there.set()
            await go_on.wait()
        return await hand_over(client, found)

    monkeypatch.setattr(relay, "hand_over", slow)
    other = asyncio.create_task(Relay(shop, client=client, batch=1).run_once())
    await first_is_there.wait()
    swept = await Relay(shop, client=client, batch=1).run_once()
    go_on.set()
    await other

    assert swept.refused == 0
    await Relay(shop, client=client).run_once()
    assert await submitted(client) == [1, 2]
    assert await rows(shop) == []


@pytest.mark.parametrize("is_known", [True, False])
async def test_what_was_answered_by_halves_before_the_time_was_up_is_kept(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Rows of one room that together are too large for a request to a server far away were begun anew for ever."""
    limits = noted_limits(monkeypatch)
    submit = SubmitBatcher._submit

    async def slow(batcher: SubmitBatcher, room: str, batch: Any, *, wait: bool) -> None:
        if len(batch) == 4:
            await batcher._by_halves(room, batch, InvalidArguments("too large"), wait=wait)
        elif batch[0][0]["payload"]["n"] == 2:
            limits[-1].reschedule(asyncio.get_running_loop().time())
            await asyncio.Event().wait()
        else:
            await submit(batcher, room, batch, wait=wait)

    if is_known:
        await client.register(note)
    await write(shop, range(4))
    monkeypatch.setattr(SubmitBatcher, "_submit", slow)
    if not is_known:
        with pytest.raises(ConnectionFailed, match="more than 60 s for 4 rows"):
            await Relay(shop, client=client).run_once()

    swept = await Relay(shop, client=client).run_once()

    assert (swept.handed, swept.refused, swept.left) == (2, 0, 2)
    assert await submitted(client) == [0, 1]
    assert len(await rows(shop)) == 2


def noted_limits(monkeypatch: pytest.MonkeyPatch) -> list[asyncio.Timeout]:
    """The limits that the relay sets to the server's answers: a test has them end when it is time."""
    limits: list[asyncio.Timeout] = []

    def noted(when: float) -> asyncio.Timeout:
        limits.append(asyncio.timeout_at(when))
        return limits[-1]

    monkeypatch.setattr(handing, "asyncio", SimpleNamespace(**{**vars(asyncio), "timeout_at": noted}))
    return limits


async def test_f6_a_row_that_is_longer_than_what_is_taken_at_once_has_more_time(
    shop: AsyncEngine, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a slow line carries less in a minute it was sent again and again, and no row behind it was looked at."""
    limits, given = noted_limits(monkeypatch), list[float]()
    async with shop.begin() as connection:
        long, *_ = await outbox.submit_many(connection, [note.bind(1, "x" * 5_000_000), note.bind(2)])

    async def never(*_: Any, **__: Any) -> Any:
        now = asyncio.get_running_loop().time()
        given.append((limits[-1].when() or 0) - now)
        limits[-1].reschedule(now)
        return await asyncio.Event().wait()

    monkeypatch.setattr(SubmitBatcher, "add", never)
    with pytest.raises(ConnectionFailed, match=rf"more than 300 s for task {long} of 5,000,\d{{3}} characters"):
        await Relay(shop, client=client).run_once()

    assert [200 < seconds < 301 for seconds in given] == [True]


async def test_f6_of_the_rows_that_wait_only_those_that_others_depend_on_are_read(
    shop: AsyncEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *_ = await write(shop, range(20))
    read = list[str]()
    async with shop.begin() as connection:
        *_, last = await connection.run_sync(outbox_rows.take, TABLE, 0, 99, 99)
        monkeypatch.setattr(outbox_rows, "id_text", lambda one: read.append(one) or one.lower())
        found = await connection.run_sync(outbox_rows.waiting_elsewhere, TABLE, [last], {first, SAME})

    assert (found, read) == ({first}, [first])
