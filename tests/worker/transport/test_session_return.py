"""How long it takes to find that a socket can be opened again, counted by a clock that nobody waits for (N4)."""

import asyncio
from typing import Any

import pytest

from tests.timeless import in_no_time
from tests.worker.fakes import HELLO
from treadle.errors import SocketRefused
from treadle.transport.bearer import Way
from treadle.transport.dialing import OPENING
from treadle.transport.retries import delays
from treadle.transport.session import FIRST_OPENING, ROUND, Session
from treadle.worker.connector import LEAVING
from treadle.worker.link import SETTLING

LONGEST_DELAY = 5.0


class OpenSocket:
    """A connection that says nothing."""

    close_code = 1000
    close_reason = ""
    is_silent = False

    def __init__(self) -> None:
        self._ended = asyncio.Event()

    async def next_frame(self) -> Any:
        await self._ended.wait()
        raise asyncio.CancelledError

    async def close(self) -> None:
        self._ended.set()


async def _seconds_until_it_is_back(urls: tuple[str, ...], after: float, patch: pytest.MonkeyPatch) -> float:
    """Return how long after it is possible, `after` some seconds, a session opens a socket at the last of the URLs.

    First nobody opens one; from then on all that can't are as slow as anybody can be: what is sent there is lost.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    possible_at = began + after
    back = asyncio.Event()

    async def dial(way: Way, client: str | None, *, limit: float = OPENING) -> tuple[Any, dict[str, Any]]:
        if way.url == urls[-1] and loop.time() >= possible_at:
            back.set()
            return OpenSocket(), HELLO
        if loop.time() > began:
            await asyncio.sleep(2 * limit)
        raise SocketRefused(f"{way.url} opens no websocket")

    patch.setattr("treadle.transport.session.dial", dial)
    patch.setattr("treadle.transport.session.monotonic", loop.time)
    session = Session(urls, "secret", on_push=lambda _: None)
    async with asyncio.TaskGroup() as group:
        group.create_task(session.run())
        await back.wait()
        await asyncio.sleep(0)
        await session.close()
    return loop.time() - possible_at


@pytest.mark.parametrize("addresses", [1, 2, 4])
def test_a_socket_is_found_within_seconds_of_its_being_possible_n4(
    addresses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whenever that is, and however long the other addresses keep whoever tries them."""
    urls = tuple(f"http://s{n}.invalid" for n in range(addresses))

    took = [in_no_time(_seconds_until_it_is_back(urls, turn * 0.77, monkeypatch)) for turn in range(1, 60)]

    assert max(took) <= ROUND + LONGEST_DELAY + 0.1


async def _seconds_beside_one_that_stands_still(patch: pytest.MonkeyPatch) -> float:
    """Return how long a session takes to open where the server that it tries first takes connections and no more."""
    loop = asyncio.get_running_loop()
    began, tried = loop.time(), 0
    opened = asyncio.Event()

    async def dial(way: Way, client: str | None) -> tuple[Any, dict[str, Any]]:
        nonlocal tried
        tried += 1
        if tried == 1:
            await asyncio.sleep(OPENING)
            raise SocketRefused(f"{way.url} did not open a websocket", is_silent=True)
        opened.set()
        return OpenSocket(), HELLO

    patch.setattr("treadle.transport.session.dial", dial)
    session = Session(("http://one.invalid", "http://other.invalid"), "secret", on_push=lambda _: None)
    async with asyncio.TaskGroup() as group:
        group.create_task(session.run())
        await opened.wait()
        took = loop.time() - began
        await asyncio.sleep(0)
        await session.close()
    return took


def test_of_several_servers_one_that_stands_still_keeps_nobody_from_the_others_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert in_no_time(_seconds_beside_one_that_stands_still(monkeypatch)) <= FIRST_OPENING + 0.1


def test_a_worker_is_back_at_the_socket_within_thirty_seconds_n4() -> None:
    """A try that has just begun in vain, the longest pause, and the last claim over HTTP with all that is under way."""
    pauses = delays()

    assert max(next(pauses) for _ in range(100)) <= LONGEST_DELAY
    assert ROUND + LONGEST_DELAY + LEAVING + SETTLING <= 30
