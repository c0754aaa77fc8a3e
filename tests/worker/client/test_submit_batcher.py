"""What many coroutines submit goes in few requests, of which one is under way while others are prepared."""

import asyncio
from typing import Any

import pytest

from treadle.client import submit_batcher
from treadle.client.submit_batcher import PORTION, WORTH_PORTIONS, SubmitBatcher
from treadle.errors import ConnectionLost

pytestmark = pytest.mark.anyio


class Server:
    """Notes the requests, and answers them when it is told to; the time passes as it is told, too."""

    def __init__(self) -> None:
        self.asked: asyncio.Queue[tuple[list[str], asyncio.Future[dict[str, Any]]]] = asyncio.Queue()
        self.now = 0.0

    async def send(self, fields: dict[str, Any]) -> dict[str, Any]:
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self.asked.put_nowait(([task["id"] for task in fields["tasks"]], answer))
        return await answer

    async def answer(self, *, after: float = 0.0) -> list[str]:
        """Answer the request that came first, after so many seconds, and return the ids in it."""
        ids, answer = await self.asked.get()
        self.now += after
        answer.set_result({"tasks": [{"id": task_id} for task_id in ids]})
        return ids


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(submit_batcher, "monotonic", lambda: server.now)
    return server


@pytest.mark.parametrize(
    ("took", "sizes"),
    [(WORTH_PORTIONS - 0.1, [2 * PORTION + 1, PORTION, PORTION, 1]), (WORTH_PORTIONS, [2 * PORTION + 1] * 2)],
    ids=["soon", "late"],
)
async def test_who_is_answered_soon_submits_again_before_the_others_are_told(
    server: Server, took: float, sizes: list[int]
) -> None:
    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(server.send, group.create_task)

        async def submit(name: int) -> None:
            for turn in range(3):
                task_id = f"{turn}-{name}"
                receipt = await batcher.add("lab", {"id": task_id}, wait=False)
                assert receipt == {"id": task_id}
                if turn == 0 and name == 0:
                    server.now += 1.0  # before they have come together again

        for name in range(2 * PORTION + 1):
            group.create_task(submit(name))

        requests = [await server.answer(), await server.answer(after=took)]
        requests += [await server.answer() for _ in sizes[1:]]

    assert [len(ids) for ids in requests[1:]] == sizes
    assert [ids[0] for ids in requests[:3]] == ["0-0", "1-0", "2-0"]


async def test_who_has_not_been_told_yet_when_the_client_is_closed_is_told_that(server: Server) -> None:
    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(server.send, group.create_task)

        async def submit(name: int) -> str:
            await batcher.add("lab", {"id": f"first-{name}"}, wait=False)
            server.now += 1.0
            try:
                receipt = await batcher.add("lab", {"id": str(name)}, wait=False)
            except ConnectionLost:
                return "lost"
            batcher.close()
            return str(receipt["id"])

        adding = [group.create_task(submit(name)) for name in range(PORTION + 1)]
        await server.answer()
        await server.answer()

    assert [one.result() for one in adding] == [*map(str, range(PORTION)), "lost"]


async def test_each_of_those_whose_request_reached_nobody_raises_an_error_of_its_own() -> None:
    """Of a thousand that were gathered the last one's traceback had the places of all."""

    async def send(_: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionLost("it broke")

    async with asyncio.TaskGroup() as group:
        batcher = SubmitBatcher(send, group.create_task)
        one, other = await asyncio.gather(
            *(batcher.add("@global", {"id": task_id}, wait=False) for task_id in ("a", "b")), return_exceptions=True
        )

    assert one is not other
    assert str(one) == str(other) == "it broke"
