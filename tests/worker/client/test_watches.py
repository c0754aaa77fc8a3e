"""What is pushed of watched tasks: whose it is, and what of it was lost on the way."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from treadle.client.watches import Watches
from treadle.errors import ConnectionFailed, Forbidden, problem_named

pytestmark = pytest.mark.anyio

Spawn = Callable[[Coroutine[Any, Any, None]], object]


@pytest.fixture
async def spawn() -> AsyncIterator[Spawn]:
    async with asyncio.TaskGroup() as group:
        yield group.create_task


class Server:
    """Takes what is asked, or refuses it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.refuses = False

    async def call(self, op: str, fields: dict[str, Any]) -> dict[str, Any]:
        self.asked.append((op, fields["sub"]))
        if self.refuses:
            raise Forbidden(problem_named("forbidden", "not for you"))
        return {}


def push(kind: str, sub: str, frame: int, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"push": kind, "sub": sub, "frame": frame, "rows": list(rows), "gone": [], **more}


async def test_of_several_states_the_last_is_taken(spawn: Spawn) -> None:
    watches = Watches(Server().call, spawn)
    one, other = await watches.begin("a"), await watches.begin("b")

    watches.push(push("snapshot", one.sub, 0, {"n": 1}))
    watches.push(push("delta", one.sub, 1, {"n": 2}, prev=0))
    watches.push(push("snapshot", other.sub, 0, {"n": 3}))

    assert (await one.state(), await other.state()) == ({"n": 2}, {"n": 3})


async def test_a_push_that_does_not_follow_the_last_is_asked_for_anew(spawn: Spawn) -> None:
    server = Server()
    watches = Watches(server.call, spawn)
    one = await watches.begin("a")
    watches.push(push("snapshot", one.sub, 0, {"n": 1}))
    assert await one.state() == {"n": 1}

    watches.push(push("delta", one.sub, 2, {"n": 3}, prev=1))
    waiting = asyncio.ensure_future(one.state())
    await asyncio.sleep(0)
    await asyncio.sleep(0)

    assert server.asked == [("watch", one.sub)] * 2
    assert not waiting.done()
    watches.push(push("snapshot", one.sub, 0, {"n": 4}))
    assert await waiting == {"n": 4}


async def test_a_task_that_is_not_there_any_more_is_told(spawn: Spawn) -> None:
    watches = Watches(Server().call, spawn)
    one = await watches.begin("a")
    watches.push(push("snapshot", one.sub, 0, {"n": 1}))
    watches.push(push("delta", one.sub, 1, prev=0, gone=["a"]))

    assert await one.state() is None


async def test_what_only_a_total_changes_is_no_state(spawn: Spawn) -> None:
    watches = Watches(Server().call, spawn)
    one = await watches.begin("a")
    watches.push(push("delta", one.sub, 1, prev=None))
    waiting = asyncio.ensure_future(one.state())
    await asyncio.sleep(0)

    assert not waiting.done()
    waiting.cancel()


async def test_one_that_is_refused_is_watched_no_more(spawn: Spawn) -> None:
    server = Server()
    server.refuses = True
    watches = Watches(server.call, spawn)
    with pytest.raises(Forbidden):
        await watches.begin("a")

    await watches.again()
    assert server.asked.count(("watch", "task 1")) == 1


async def test_whoever_waits_is_told_what_a_new_connection_refuses(spawn: Spawn) -> None:
    server = Server()
    watches = Watches(server.call, spawn)
    one = await watches.begin("a")
    server.refuses = True
    await watches.again()

    with pytest.raises(Forbidden):
        await one.state()


async def test_what_failed_once_goes_on_when_there_is_a_state(spawn: Spawn) -> None:
    watches = Watches(Server().call, spawn)
    one = await watches.begin("a")
    watches.fail(ConnectionFailed("nobody is there"))
    with pytest.raises(ConnectionFailed):
        await one.state()
    watches.push(push("snapshot", one.sub, 0, {"n": 1}))

    assert await one.state() == {"n": 1}


async def test_what_was_pushed_before_it_failed_is_not_lost_and_what_is_pushed_after_it_is_newer(spawn: Spawn) -> None:
    watches = Watches(Server().call, spawn)
    one = await watches.begin("a")
    watches.push(push("snapshot", one.sub, 0, {"n": 1}))
    watches.fail(ConnectionFailed("nobody is there"))
    with pytest.raises(ConnectionFailed):
        await one.state()
    assert await one.state() == {"n": 1}

    watches.fail(ConnectionFailed("nobody is there"))
    watches.push(push("snapshot", one.sub, 0, {"n": 2}))
    assert await one.state() == {"n": 2}


async def test_what_is_pushed_to_nobody_any_more_is_dropped(spawn: Spawn) -> None:
    server = Server()
    watches = Watches(server.call, spawn)
    one = await watches.begin("a")
    watches.end(one)
    watches.push(push("snapshot", one.sub, 0, {"n": 1}))
    await asyncio.sleep(0)

    assert server.asked[-1] == ("unwatch", one.sub)
