"""Short words for what tests of the API do again and again."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import httpx

from tests import waiting

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
NewUser = Callable[[str], Awaitable[httpx.AsyncClient]]
Scoped = Callable[..., Awaitable[httpx.AsyncClient]]
"""Makes a client whose token has these scopes."""


def token_of(client: httpx.AsyncClient) -> str:
    """Return the client's token."""
    return client.headers["Authorization"].removeprefix("Bearer ")


class Room:
    """A room with one job and a worker, to be worked in over plain HTTP."""

    def __init__(self, client: httpx.AsyncClient, room: str, job: str, worker_id: str) -> None:
        self.client = client
        self.room = room
        self.job = job
        self.worker_id = worker_id

    async def submit(self, n: int = 0, **options: Any) -> dict[str, Any]:
        answer = await self.client.post(
            f"/v1/rooms/{self.room}/tasks/{self.job}", json={"payload": {"n": n}, **options}
        )
        assert answer.status_code == 202, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def claim(self, **options: Any) -> dict[str, Any]:
        answer = await self.client.post("/v1/tasks/claim", json={"worker_id": self.worker_id, **options})
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]

    async def start(self) -> dict[str, Any]:
        """Claim the next task and start it."""
        task = (await self.claim())["task"]
        started = await self.client.post(f"/v1/tasks/{task['id']}/runs/{task['run_id']}/started")
        assert started.status_code == 200, started.text
        return started.json()  # type: ignore[no-any-return]

    async def get(self, task_id: str) -> dict[str, Any]:
        answer = await self.client.get(f"/v1/tasks/{task_id}")
        assert answer.status_code == 200, answer.text
        return answer.json()  # type: ignore[no-any-return]


async def make_room(client: httpx.AsyncClient, room: str = "lab", name: str = "add", **options: Any) -> Room:
    answer = await client.put(
        f"/v1/rooms/{room}/jobs", json={"category": "tasks", "name": name, "schema": SCHEMA, **options}
    )
    assert answer.status_code == 201, answer.text
    return Room(client, room, answer.json()["full_name"], answer.json()["worker_id"])


def problem(answer: httpx.Response) -> str:
    """Return the problem's name; fail unless the answer is a well-formed problem."""
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["title"]
    assert body["detail"]
    assert body["instance"] == httpx.URL(answer.request.url).path
    return str(body["type"].removeprefix("/v1/problems/"))


until = partial(waiting.until, pause=0)
"""What the server does is done in this loop, which goes on meanwhile."""
