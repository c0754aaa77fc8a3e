"""How rows are handed over where the server takes its time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from tests.worker.outbox.conftest import note, rows, submitted, write
from treadle import Client
from treadle.client.submit_batcher import SubmitBatcher
from treadle.errors import ConnectionFailed, InvalidArguments
from treadle.outbox import Relay, handing

pytestmark = pytest.mark.anyio


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
