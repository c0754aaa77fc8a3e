"""Transitions in one order, told by two servers on one PostgreSQL, also when notices come late or twice (G11, Z16)."""

from typing import Any

import pytest
from sqlalchemy import text

from tests.live.sockets import JOB, Socket, submit
from tests.servers.conftest import Site, until
from treadle.wire.ids import TaskId
from treadle.wire.status import Status
from treadle_server.services.relay.codec import Notice, Transitions

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]


async def told(observer: Socket, last: str) -> list[tuple[str, str]]:
    """Return each task with its status, in the order of the events, up to that of the task `last`."""
    found: list[dict[str, Any]] = []
    while not any(one["task"]["id"] == last for one in found):
        events = (await observer.pushed("events"))["events"]
        assert [one["seq"] for one in events] == sorted(one["seq"] for one in events)
        found += [one for one in events if one["type"] == "task.updated"]
    return [(one["task"]["id"], one["task"]["status"]) for one in found]


async def test_what_another_server_tells_after_a_later_transition_is_not_told_any_more_g11(
    sites: tuple[Site, Site],
) -> None:
    first, second = sites
    client = await first.socket()
    observer = await first.socket()
    await client.call("register", **JOB)
    await observer.call("every")
    await until(lambda: second.relay.sender.peers_want_each)
    [task] = await submit(client)
    await client.call("action", id=task["id"], action="pause")
    late = {TaskId(task["id"]): Transitions(None, [(Status.PENDING, 1)])}
    server = second.engine.hub.stream

    # The submit, as the other server would tell it had it made it, and once more.
    for _ in range(2):
        await first.relay.inbox.receiver.take([Notice(server, 1, tasks=late)], has_gap=False)
    [other] = await submit(client)

    assert await told(observer, other["id"]) == [
        (task["id"], "pending"),
        (task["id"], "paused"),
        (other["id"], "pending"),
    ]
    recent = await first.ask("GET", "/v1/events")
    assert [one["task"]["status"] for one in recent["items"] if one.get("task", {}).get("id") == task["id"]].count(
        "pending"
    ) == 1


async def test_after_a_reload_nothing_older_comes_g11(sites: tuple[Site, Site]) -> None:
    first, second = sites
    client, observer = await second.socket(), await first.socket()
    await client.call("register", **JOB)
    [task] = await submit(client)
    await client.call("action", id=task["id"], action="pause")
    await observer.call("every")
    await until(lambda: second.relay.sender.peers_want_each)
    steps = {TaskId(task["id"]): Transitions(None, [(Status.PENDING, 1)])}

    await first.relay.inbox.receiver.take([], has_gap=True)
    await observer.pushed("reload")
    observer.pushes.clear()  # what the other server told may have come before it, in its order
    await first.relay.inbox.receiver.take([Notice(second.engine.hub.stream, 1, tasks=steps)], has_gap=False)
    [other] = await submit(await first.socket())

    # What the task is now may be told again: the server that did it tells it about now.
    assert set(await told(observer, other["id"])) <= {(task["id"], "paused"), (other["id"], "pending")}


async def test_what_was_heard_with_a_gap_is_not_told_behind_its_reload_g11(sites: tuple[Site, Site]) -> None:
    first, second = sites
    client, observer = await first.socket(), await first.socket()
    await client.call("register", **JOB)
    await observer.call("every")
    await until(lambda: second.relay.sender.peers_want_each)
    async with first.engine.store.read() as connection:
        nums = set((await connection.execute(text("SELECT num FROM jobs"))).scalars())

    await first.relay.inbox.receiver.take([Notice(second.engine.hub.stream, 1, jobs=nums)], has_gap=True)
    reload = await observer.pushed("reload")
    await submit(client)

    events = (await observer.pushed("events"))["events"]
    assert nums
    assert all(one["seq"] > reload["seq"] for one in events)
