"""Queue positions (Z14): the 1-based place in the order of claims, distinct, stable, and null unless pending."""

from typing import Any

import pytest

from tests.promises.rig import Rig, worker_of
from tests.promises.words import JOB, Task, User, Worker


async def queue(user: User, *priorities: int, job: str = JOB) -> list[Task]:
    """Submit a task of each priority, all in one instant."""
    return [await user.submit(job, priority=priority) for priority in priorities]


def ids(tasks: list[Task]) -> list[str]:
    return [task["id"] for task in tasks]


async def order(user: User, job: str = JOB) -> list[str]:
    """Return the ids of the pending tasks by position; fail unless positions count 1, 2, 3 and on."""
    positions = await user.positions(job)
    assert sorted(positions.values()) == list(range(1, len(positions) + 1))
    return sorted(positions, key=positions.__getitem__)


async def drained(worker: Worker) -> list[str]:
    """Claim and complete until there is nothing, and return the ids in their order."""
    found = []
    while claims := await worker.claim():
        found.append(claims[0]["id"])
        await worker.start(claims[0])
        await worker.complete(claims[0])
    return found


async def test_z14_with_equal_timestamps_positions_are_distinct_stable_and_first_come_first_served(rig: Rig):
    await rig.root.register_job()
    tasks = await queue(rig.root, 0, 0, 0, 0, 0)
    assert len({task["scheduled_at"] for task in tasks}) == 1

    seen = [await rig.root.positions() for _ in range(3)]

    assert seen[0] == seen[1] == seen[2] == {task["id"]: n for n, task in enumerate(tasks, 1)}
    assert [task["queue_position"] for task in tasks] == [1, 2, 3, 4, 5]
    assert [(await rig.root.get(task))["queue_position"] for task in tasks] == [1, 2, 3, 4, 5]


async def test_z14_tasks_of_one_request_are_in_line_as_they_stand_in_it(rig: Rig):
    await rig.root.register_job()

    tasks = await rig.root.submit_many(*({"job": JOB, "priority": n % 2} for n in range(6)))

    assert await order(rig.root) == [tasks[n]["id"] for n in (1, 3, 5, 0, 2, 4)]


async def test_z14_positions_are_the_order_of_claims(rig: Rig):
    """Priority, then due time, then arrival."""
    worker = await worker_of(rig)
    late = await rig.root.submit(delay=1)
    await queue(rig.root, 0, 5, -3, 5, 0)
    rig.advance(1)
    await rig.promote()
    await queue(rig.root, 0, 5)

    expected = await order(rig.root)

    assert expected.index(late["id"]) == 5
    assert await drained(worker) == expected


async def test_z14_a_submit_tells_the_place_that_a_read_gives(rig: Rig):
    await rig.root.register_job()

    for priority in (0, 3, 0, 3, 1, -1, 9):
        task = await rig.root.submit(priority=priority)
        assert task["queue_position"] == (await rig.root.get(task))["queue_position"]


async def test_z14_positions_count_within_the_job(rig: Rig):
    await rig.root.register_job()
    await rig.root.register_job("sub")
    await queue(rig.root, 0, 0)

    other = await rig.root.submit("lab:tasks:sub")

    assert other["queue_position"] == 1
    assert await rig.root.positions("lab:tasks:sub") == {other["id"]: 1}


async def test_z14_a_cancel_moves_up_who_stands_behind(rig: Rig):
    await rig.root.register_job()
    first, second, third = await queue(rig.root, 0, 0, 0)

    await rig.root.cancel(second)

    assert await order(rig.root) == ids([first, third])
    assert (await rig.root.get(second))["queue_position"] is None


@pytest.mark.parametrize(("priority", "places"), [(9, [2, 0, 1]), (-9, [0, 1, 2]), (0, [0, 1, 2])])
async def test_z14_a_change_of_priority_changes_the_place(rig: Rig, priority: int, places: list[int]):
    await rig.root.register_job()
    tasks = await queue(rig.root, 0, 0, 0)

    edited = await rig.root.edit(tasks[2], priority=priority)

    assert await order(rig.root) == [tasks[n]["id"] for n in places]
    assert edited["queue_position"] == places.index(2) + 1
    worker = await rig.root.register_worker(JOB)
    assert await drained(worker) == [tasks[n]["id"] for n in places]


async def test_z14_a_priority_changed_and_changed_back_restores_the_place(rig: Rig):
    await rig.root.register_job()
    tasks = await queue(rig.root, 0, 0, 0)

    await rig.root.edit(tasks[0], priority=-1)
    rig.advance(1)
    await rig.root.edit(tasks[0], priority=0)

    assert await order(rig.root) == ids(tasks)


async def test_z14_a_claim_moves_up_the_rest_and_a_hand_back_restores_the_place(rig: Rig):
    worker = await worker_of(rig)
    tasks = await queue(rig.root, 0, 0, 0)

    run = await worker.take()
    assert await order(rig.root) == ids(tasks[1:])
    await worker.hand_back(run)

    assert await order(rig.root) == ids(tasks)


@pytest.mark.parametrize("status", ["scheduled", "claimed", "running", "paused", "completed", "failed", "cancelled"])
async def test_z14_in_every_state_but_pending_there_is_no_place(rig: Rig, status: str):
    worker = await worker_of(rig)
    task = await rig.root.submit(delay=9 if status == "scheduled" else 0)
    words: dict[str, Any] = {"completed": worker.complete, "failed": worker.fail, "cancelled": rig.root.cancel}
    if status == "paused":
        await rig.root.pause(task)
    elif status != "scheduled":
        run = await worker.take()
        if status != "claimed":
            await worker.start(run)
        if status in words:
            await words[status](run)

    now = await rig.root.get(task)

    assert (now["status"], now["queue_position"]) == (status, None)
    assert await rig.root.positions() == {}


async def test_z14_a_paused_and_resumed_task_gets_its_place_back(rig: Rig):
    await rig.root.register_job()
    tasks = await queue(rig.root, 0, 0, 0)

    await rig.root.pause(tasks[0])
    rig.advance(5)
    assert await order(rig.root) == ids(tasks[1:])
    resumed = await rig.root.resume(tasks[0])

    assert resumed["queue_position"] == 1
    assert await order(rig.root) == ids(tasks)


async def test_z14_tasks_of_every_room_and_pool_stand_in_one_line_of_a_shared_job(rig: Rig):
    await rig.root.register_job(room="@global")
    name = "@global:tasks:add"

    tasks = [await rig.root.submit(name, room=room) for room in ("den", "lab", "den")]
    tasks.append(await rig.root.submit(name, room="lab", pool="gpu"))

    assert [task["queue_position"] for task in tasks] == [1, 2, 3, 4]
    assert [(await rig.root.get(task))["queue_position"] for task in tasks] == [1, 2, 3, 4]
