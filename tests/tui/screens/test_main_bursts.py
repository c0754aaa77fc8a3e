"""Keys that come in one burst, typed ahead or pasted, act as if they had come one by one."""

import asyncio

from textual.events import Key

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged


def typed(*keys: str) -> list[Key]:
    return [Key(key, key if len(key) == 1 else None) for key in keys]


async def test_1_a_key_right_behind_the_one_that_goes_to_the_tasks_acts_on_the_tasks(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        for key in typed("2", "down", "p"):
            stage.app.post_message(key)
        await stage.settle()

    assert stage.asked("job") == []
    assert stage.asked("actions")[-1]["ids"] == [list(server.tasks)[1]]


async def test_1_a_key_right_behind_the_one_that_opens_a_queue_acts_on_its_tasks(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        for key in typed("enter", "p"):
            stage.app.post_message(key)
        await stage.settle()

    assert stage.asked("job") == []
    assert stage.asked("actions")[-1]["ids"] == [next(iter(server.tasks))]


async def test_1_the_tasks_of_a_queue_that_was_passed_over_are_never_those_of_the_next_one(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        first = next(iter(server.tasks))[-8:]
        assert first in stage.text()
        await stage.press("down")
        assert first not in stage.text()

        server.gate = asyncio.Event()
        await stage.press("up", "down")
        # The server is slow: the queue that was passed over it tells of, and not yet of the one that is highlighted.
        server.gate.set()
        server.gate = asyncio.Event()
        await stage.settle()

        assert first not in stage.text()
        server.gate.set()
