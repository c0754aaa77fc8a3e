"""What many coroutines submit goes in few requests, of which one is under way while others are prepared."""

import asyncio
from typing import Any

import pytest

from treadle.client.submit_batcher import PORTION, SubmitBatcher
from treadle.errors import ConnectionLost

pytestmark = pytest.mark.anyio


class Server:
    """Notes the requests, and answers them when it is told to."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[list[str], asyncio.Future[dict[str, Any]]]] = asyncio.Queue()

    async def send(self, fields: dict[str, Any]) -> dict[str, Any]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(([task["id"] for task in fields["tasks"]], answer))
        return await answer

    async def answer(self) -> list[str]:
        """Answer the request that came first, and return the ids in it."""
        ids, answer = await self.asked.get()
        answer.set_result({"tasks": [{"id": task_id} for task_id in ids]})
        return ids


async def test_who_is_told_first_submits_again_before_the_others_are_told() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(server.send, group.create_task)

        async def submit(name: int) -> None:
            for turn in range(2):
                task_id = f"{turn}-{name}"
                receipt = await batcher.add("lab", {"id": task_id}, wait=False)
                assert receipt == {"id": task_id}

        for name in range(2 * PORTION + 1):
            group.create_task(submit(name))

        requests = [await server.answer() for _ in range(4)]

    assert [len(ids) for ids in requests] == [2 * PORTION + 1, PORTION, PORTION, 1]
    assert [ids[0] for ids in requests] == ["0-0", "1-0", f"1-{PORTION}", f"1-{2 * PORTION}"]


async def test_who_has_not_been_told_yet_when_the_client_is_closed_is_told_that() -> None:
    server = Server()
    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(server.send, group.create_task)

        async def submit(name: int) -> str:
            try:
                receipt = await batcher.add("lab", {"id": str(name)}, wait=False)
            except ConnectionLost:
                return "lost"
            batcher.close()
            return str(receipt["id"])

        adding = [group.create_task(submit(name)) for name in range(PORTION + 1)]
        await server.answer()

    assert [one.result() for one in adding] == [*map(str, range(PORTION)), "lost"]
