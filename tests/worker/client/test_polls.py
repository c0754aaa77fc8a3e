"""How ends are polled for where no socket pushes them: through waits that are cut off, and of more tasks than fit."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from treadle.client import polls
from treadle.client.polls import AT_ONCE, LONGEST, Polls
from treadle.client.results import ResultWaiters
from treadle.errors import ConnectionLost
from treadle.transport.retries import HoldCut

pytestmark = pytest.mark.anyio

Spawn = Callable[[Coroutine[Any, Any, None]], object]


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    begun: list[asyncio.Task[None]] = []
    async with asyncio.TaskGroup() as group:
        yield lambda work: begun.append(group.create_task(work))
        for task in begun:
            task.cancel()


async def _nothing(_ids: list[str]) -> None:
    """Ask for nothing: the test does."""


async def test_a_wait_that_is_cut_off_goes_on_in_shorter_ones(spawn: Spawn) -> None:
    held: list[int] = []

    async def request(_method: str, path: str, **how: Any) -> dict[str, Any]:
        held.append(how["held"])
        assert how["headers"] == {"Prefer": f"wait={how['held']}"}
        if how["held"] > 5:
            raise HoldCut("answers 504", 5.03)
        return {"id": path.rpartition("/")[2], "status": "completed" if len(held) == 4 else "running"}

    waiters = ResultWaiters(_nothing, spawn)
    ended = waiters.expect("a")
    Polls(request, waiters, spawn, is_needed=lambda: True).begin(["a"])

    assert (await ended)["status"] == "completed"
    assert held == [LONGEST, 4, 4, 4]


async def test_what_breaks_otherwise_is_told(spawn: Spawn) -> None:
    async def request(_method: str, _path: str, **_how: Any) -> dict[str, Any]:
        raise ConnectionLost("nobody is there")

    waiters = ResultWaiters(_nothing, spawn)
    ended = waiters.expect("a")
    Polls(request, waiters, spawn, is_needed=lambda: True).begin(["a"])

    with pytest.raises(ConnectionLost, match="nobody is there"):
        await ended


async def test_of_more_tasks_than_are_asked_for_at_once_each_has_its_turn(
    spawn: Spawn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thirty-two that waited for long kept all others waiting for a minute."""
    monkeypatch.setattr(polls, "ROUND", 1)
    held: list[int] = []
    all_asked = asyncio.Event()

    async def request(_method: str, path: str, **how: Any) -> dict[str, Any]:
        held.append(how["held"])
        if len(held) == AT_ONCE:
            all_asked.set()
        task_id = path.rpartition("/")[2]
        if task_id != "late":
            await asyncio.Event().wait()
        return {"id": task_id, "status": "completed"}

    waiters = ResultWaiters(_nothing, spawn)
    asked = Polls(request, waiters, spawn, is_needed=lambda: True)
    asked.begin([str(number) for number in range(AT_ONCE)])
    await all_asked.wait()

    late = waiters.expect("late")
    asked.begin(["late"])
    ends = [limit.when() for limit in asked._held]
    await asyncio.sleep(0)
    asked.begin(["later"])
    # Who comes next puts off none of those that end now.
    assert [limit.when() for limit in asked._held] == ends

    async with asyncio.timeout(30):
        assert (await late)["status"] == "completed"
    assert held[:AT_ONCE] == [LONGEST] * AT_ONCE
    assert held[AT_ONCE] == 1
