"""Requests that a server which is there never answers."""

import asyncio
from typing import Any

import pytest

from tests.waiting import until
from tests.worker.fakes import fake_server, session_to
from treadle.errors import ConnectionLost
from treadle.transport import open_requests, session

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_requests, "LONGEST", 0.05)
    monkeypatch.setattr(session, "LOOKS", 0.01)


async def test_what_gets_no_answer_is_asked_for_over_the_next_connection_and_fails_in_the_end() -> None:
    """It was waited for as long as the server lived."""
    is_deaf = True

    def answer(item: dict[str, Any]) -> Any:
        return None if is_deaf else {"here": True}

    async with fake_server(answer) as fake, session_to(fake, patience=0.1) as opened, asyncio.timeout(30):
        with pytest.raises(ConnectionLost):
            await opened.call("ask")
        asking = asyncio.ensure_future(opened.call("ask"))
        is_deaf = await asyncio.sleep(0, False)  # it is under way
        assert await asking == {"here": True}


async def test_what_may_not_be_repeated_and_gets_no_answer_fails() -> None:
    async with fake_server(lambda _: None) as fake, session_to(fake) as opened, asyncio.timeout(30):
        with pytest.raises(ConnectionLost):
            await opened.call("act", resend=False)

        assert len(fake.items) == 1


async def test_what_is_answered_late_is_waited_for_as_long_as_the_server_answers_what_came_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server with much to do would get all of it again."""
    now, looks, late = 0.0, 0, list[str]()

    def clock() -> float:
        nonlocal looks
        looks += 1
        return now

    def answer(item: dict[str, Any]) -> Any:
        if item["op"] == "late":
            late.append(item["op"])
            return None if len(late) == 1 else {"here": True}
        return {}

    async with fake_server(answer) as fake, session_to(fake) as opened, asyncio.timeout(30):
        monkeypatch.setattr(session, "monotonic", clock)
        monkeypatch.setattr(open_requests, "monotonic", clock)
        asking = asyncio.ensure_future(opened.call("late"))
        await until(lambda: late)
        now = 0.04
        await opened.call("other")
        now, before = 0.08, looks

        await until(lambda: looks > before + 4)
        assert len(fake.connections) == 1

        await opened.call("another")
        assert await asking == {"here": True}
        assert len(fake.connections) == 2
