"""Lists of large tasks: pages end by their bytes, windows leave large values out, and both say so."""

from typing import Any

import httpx
import pytest

from tests.api.rooms import Room
from tests.live.sockets import connected
from treadle_server.store.read import shown, tasks, walks
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

LARGE = {"n": 0, "text": "x" * shown.MOST_SHOWN}
SMALL = {"n": 0, "text": "x" * 1_000}


@pytest.fixture
async def names(lab: Room, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five tasks, the second and the fourth of which are large; a page may hold one of these and a small one."""
    monkeypatch.setattr(tasks, "MOST_OF_PAGE", shown.MOST_SHOWN + 2_000)
    return [(await lab.submit(payload=LARGE if n % 2 else SMALL))["id"] for n in range(5)]


async def test_a_page_of_large_tasks_is_shorter_and_its_cursor_goes_on(root: httpx.AsyncClient, names: list[str]):
    first = (await root.get("/v1/tasks", params={"limit": 5})).json()
    assert first["is_partial"]
    assert first["total"] == 5
    found, cursor, pages = first["items"], first["next_cursor"], 1
    while cursor is not None:
        page = (await root.get("/v1/tasks", params={"limit": 5, "cursor": cursor})).json()
        found, cursor, pages = [*found, *page["items"]], page["next_cursor"], pages + 1

    assert [item["id"] for item in found] == names[::-1]
    assert [item["payload"] for item in found] == [SMALL, LARGE, SMALL, LARGE, SMALL]
    assert not any("left_out" in item for item in found)
    assert pages == 3


async def test_a_task_that_is_larger_than_a_page_comes_alone(
    root: httpx.AsyncClient, names: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tasks, "MOST_OF_PAGE", 10)

    page = (await root.get("/v1/tasks", params={"limit": 5})).json()

    assert [item["id"] for item in page["items"]] == names[-1:]
    assert page["is_partial"]


async def test_a_window_leaves_large_values_out_and_names_them_until_the_task_is_got(
    served: Served, root: httpx.AsyncClient, names: list[str]
):
    once = (await root.post("/v1/tasks/window", json={"order": "oldest"})).json()["items"]
    async with connected(served, None) as socket:
        await socket.call("watch", sub="w", topic="tasks", window={"order": "oldest"})
        pushed = (await socket.pushed("snapshot", sub="w"))["rows"]

    for rows in (once, pushed):
        assert [row["id"] for row in rows] == names
        assert [(row["payload"], row.get("left_out")) for row in rows] == [
            (SMALL, None), ({}, ["payload"]), (SMALL, None), ({}, ["payload"]), (SMALL, None),
        ]  # fmt: skip
    assert (await root.get(f"/v1/tasks/{names[1]}")).json()["payload"] == LARGE


async def test_a_row_that_a_commit_corrects_leaves_out_what_the_task_returned_and_the_rest_of_its_error(
    served: Served, root: httpx.AsyncClient, lab: Room
):
    async with connected(served, None) as socket:
        await socket.call("watch", sub="w", topic="tasks", window={"order": "oldest"})
        await socket.pushed("snapshot", sub="w")
        for kind, told in (("completed", {"result": LARGE}), ("failed", {"error": "y" * 20_000})):
            await lab.submit()
            run = await lab.start()
            answer = await root.post(f"/v1/tasks/{run['id']}/runs/{run['run_id']}/{kind}", json=told)
            assert answer.status_code == 200, answer.text
        rows: dict[str, dict[str, Any]] = {}
        while [row.get("left_out") for row in rows.values()] != [["result"], ["error"]]:
            rows |= {row["id"]: row for row in (await socket.pushed("delta", sub="w"))["rows"]}

    done, failed = rows.values()
    assert done["result"] is None
    assert failed["error"] == "y" * shown.MOST_SHOWN
    once = (await root.post("/v1/tasks/window", json={"order": "oldest"})).json()["items"]
    assert once == [done, failed]


async def test_a_list_by_last_change_is_no_longer_than_what_it_looks_through(
    served: Served, root: httpx.AsyncClient, names: list[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(walks, "LOOKED_THROUGH", 3)
    end = {"order": "updated", "offset": 1, "limit": 2}
    once = (await root.post("/v1/tasks/window", json=end)).json()
    async with connected(served, None) as socket:
        await socket.call("watch", sub="w", topic="tasks", window={**end, "offset": 0})
        pushed = await socket.pushed("snapshot", sub="w")

    assert [row["id"] for row in once["items"]] == [names[3], names[2]]
    for told in (once, pushed):
        assert (told["total"], told["total_is_capped"], told["is_partial"]) == (3, True, True)
