"""Keys that come in one burst, typed ahead or pasted, act as if they had come one by one."""

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
