"""What the server's log says of a request that hit a defect: which one it was, and of what."""

import logging

import httpx
import pytest

from tests.api.rooms import Room, problem
from tests.live.sockets import connected
from treadle_server.live import client_ops
from treadle_server.log import Folding
from treadle_server.store.read import tasks as read_tasks
from treadle_server.testing import Served

pytestmark = [pytest.mark.anyio, pytest.mark.one_database]


@pytest.fixture
def bound_lines(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What each error was bound to when it was written."""
    found: list[dict[str, object]] = []
    target = logging.Handler(logging.ERROR)
    target.emit = lambda record: found.append(dict(record.bound))  # type: ignore[method-assign, attr-defined]
    monkeypatch.setattr(logging.getLogger(), "handlers", [Folding(target)])
    return found


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("a defect")


async def test_a_line_names_the_request_its_task_and_its_session(
    served: Served,
    lab: Room,
    root: httpx.AsyncClient,
    bound_lines: list[dict[str, object]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = await lab.submit()
    monkeypatch.setattr(read_tasks, "get", broken)

    assert problem(await root.get(f"/v1/tasks/{task['id']}")) == "internal-server-error"
    async with connected(served) as socket:
        answer = await socket.ask("get", id=task["id"])

    assert answer["problem"]["status"] == 500
    http, live = bound_lines
    assert http.keys() == {"request", "task"}
    assert http["task"] == live["task"] == task["id"]
    assert live.keys() == {"session", "request", "task"}
    assert client_ops.OPS
