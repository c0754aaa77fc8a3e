"""Who is refused leaves nothing behind: a refusal that keeps the frames it went through keeps the request's body, too.

The collector of cycles finds it in the end, after some hundred such requests; their bodies have up to 10 MB each.
"""

import gc
from collections.abc import Callable
from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import NewUser, Room
from tests.live.sockets import connected
from treadle_server.errors import TreadleError
from treadle_server.testing import Served

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("no_collector")]

LARGE = "x" * 10_000


@pytest.fixture
def refusals_left() -> Callable[[], list[TreadleError]]:
    """Tell the refusals that are there; those of earlier tests, which something of theirs may keep, are not meant."""
    earlier = refusals()
    return lambda: [one for one in refusals() if not any(one is other for other in earlier)]


def refusals() -> list[TreadleError]:
    return [thing for thing in gc.get_objects() if isinstance(thing, TreadleError)]


async def test_what_is_refused_over_http_keeps_nothing_of_its_request(
    served: Served,
    root: httpx.AsyncClient,
    lab: Room,
    user: NewUser,
    refusals_left: Callable[[], list[TreadleError]],
) -> None:
    nobody = await user("nobody")
    tasks, task_id = f"/v1/rooms/lab/tasks/{lab.job}", uuid4()
    wrong, unknown = {"payload": {"n": LARGE}}, {"payload": {"n": 1, LARGE: 1}, "options": {"priority": LARGE}}
    refused = [
        await root.post(tasks, json=wrong),
        await root.post(tasks, json=unknown),
        await root.post(tasks, content=b'{"payload": ' + LARGE.encode()),
        await root.post("/v1/rooms/lab/tasks/lab:tasks:none", json=wrong),
        await root.post("/v1/rooms/lab/tasks", json={"tasks": [{"job": lab.job, **wrong}]}),
        await nobody.post(tasks, json=wrong),
        await root.post(tasks, json=wrong, headers={"Authorization": "Bearer wrong"}),
        await root.get(f"/v1/tasks/{task_id}"),
        await root.post(f"/v1/tasks/{task_id}/runs/0/completed", json={"result": LARGE}),
        await root.post(f"/v1/tasks/{task_id}/cancel"),
        await root.get("/v1/tasks", params={"status": "none"}),
        await root.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "j", "schema": {"type": 1}}),
    ]

    assert {answer.status_code for answer in refused} <= {400, 401, 403, 404, 409, 422}
    assert refusals_left() == []


async def test_what_is_refused_over_the_socket_keeps_nothing_of_its_request(
    served: Served, lab: Room, refusals_left: Callable[[], list[TreadleError]]
) -> None:
    wrong = {"job": lab.job, "payload": {"n": LARGE}}
    async with connected(served) as socket:
        refused = [
            await socket.ask("submit", room="lab", **wrong),
            await socket.ask("submit_many", room="lab", tasks=[wrong]),
            await socket.ask("cancel", task_id=str(uuid4())),
            await socket.ask("none", text=LARGE),
        ]

    assert ["problem" in answer for answer in refused] == [True] * 4, refused
    assert refusals_left() == []
