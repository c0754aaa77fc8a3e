"""Bulk actions on what was frozen: what became of each task (TUI.md 6)."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.api.rooms import NewUser, Room, problem
from treadle.wire.filters import SEVERAL
from treadle_server.errors import StoreUnavailable
from treadle_server.operations import bulk
from treadle_server.testing import Served


async def freeze(client: httpx.AsyncClient, **wanted: Any) -> dict[str, Any]:
    answer = await client.post("/v1/tasks/freeze", json=wanted)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def act(client: httpx.AsyncClient, action: str, frozen: dict[str, Any]) -> dict[str, Any]:
    """Apply the verb to exactly what was frozen."""
    versions = {item["id"]: item["version"] for item in frozen["items"]}
    body = {"action": action, "ids": list(versions), "if_versions": versions}
    answer = await client.post("/v1/tasks/actions", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def test_a_filter_is_frozen_in_queue_order_and_says_when_there_is_more(lab: Room):
    late, early = [(await lab.submit(n, priority=n))["id"] for n in (1, 5)]
    running = (await lab.start())["id"]
    other = (await lab.submit(9, priority=9))["id"]

    frozen = await freeze(lab.client, filter={"job": lab.job})
    capped = await freeze(lab.client, filter={"job": lab.job, "status": "pending"}, limit=1)

    assert running == early
    assert [(item["id"], item["status"]) for item in frozen["items"]] == [
        (early, "running"),
        (other, "pending"),
        (late, "pending"),
    ]
    assert [item["version"] for item in frozen["items"]] == [
        (await lab.get(i))["version"] for i in (early, other, late)
    ]
    assert frozen["is_capped"] is False
    assert ([item["id"] for item in capped["items"]], capped["is_capped"]) == ([other], True)
    assert frozen["items"][0]["job_name"] == lab.job


async def test_each_task_of_a_bulk_action_has_its_own_answer(lab: Room, monkeypatch: pytest.MonkeyPatch):
    """Done, changed since, missing, refused: over several portions, and none is left out."""
    monkeypatch.setattr(bulk, "CHUNK", 2)
    done, changed, refused, more = [(await lab.submit(n))["id"] for n in range(4)]
    missing = str(uuid4())
    frozen = await freeze(lab.client)
    await lab.client.patch(f"/v1/tasks/{changed}", json={"priority": 3})
    await lab.client.post(f"/v1/tasks/{refused}/cancel")
    fresh = {"id": refused, "version": (await lab.get(refused))["version"]}
    frozen["items"] = [item for item in frozen["items"] if item["id"] != refused] + [
        fresh,
        {"id": missing, "version": 1},
    ]

    result = await act(lab.client, "pause", frozen)

    assert (result["matched"], result["changed"], result["problems_are_capped"]) == (5, 2, False)
    assert result["versions"] == {task_id: (await lab.get(task_id))["version"] for task_id in (done, more)}
    told = {one["id"]: (one["outcome"], one["status"], one["version"]) for one in result["problems"]}
    assert told == {
        changed: ("changed", "pending", (await lab.get(changed))["version"]),
        refused: ("refused", "cancelled", fresh["version"]),
        missing: ("missing", None, None),
    }
    assert (await lab.get(changed))["status"] == "pending"


@pytest.mark.parametrize(
    ("verb", "inverse", "status", "status_back"),
    [("pause", "resume", "paused", "pending"), ("cancel", "rerun", "cancelled", "pending")],
)
async def test_a_bulk_action_is_undone_by_the_inverse_verb_on_what_nobody_touched_since(
    lab: Room, verb: str, inverse: str, status: str, status_back: str
):
    """TUI.md 6."""
    ids = [(await lab.submit(n))["id"] for n in range(3)]
    places = [(await lab.get(task_id))["queue_position"] for task_id in ids]

    done = await act(lab.client, verb, await freeze(lab.client))
    assert {(await lab.get(task_id))["status"] for task_id in ids} == {status}
    body = {"action": inverse, "ids": ids, "if_versions": done["versions"]}
    undone = (await lab.client.post("/v1/tasks/actions", json=body)).json()

    assert undone["changed"] == 3
    assert {(await lab.get(task_id))["status"] for task_id in ids} == {status_back}
    assert [(await lab.get(task_id))["queue_position"] for task_id in ids] == places


async def test_many_are_edited_each_with_its_own_changes_and_its_own_answer(lab: Room):
    first, second, third, wrong = [(await lab.submit(n))["id"] for n in range(4)]
    await lab.client.post(f"/v1/tasks/{third}/pause")
    missing = str(uuid4())
    edits = [
        {"id": first, "priority": 7, "if_version": 1},
        {"id": second, "payload": {"n": 22}, "tags": {"a": "b"}},
        {"id": third, "priority": 1},
        {"id": wrong, "payload": {"n": "x"}},
        {"id": missing, "payload": {"n": 1}},
    ]

    result = (await lab.client.post("/v1/tasks/edits", json={"edits": edits})).json()
    again = (await lab.client.post("/v1/tasks/edits", json={"edits": [edits[0]]})).json()

    assert (result["action"], result["matched"], result["changed"]) == ("edit", 5, 2)
    assert result["versions"] == {first: 2, second: 2}
    assert {one["id"]: (one["outcome"], one["type"].rsplit("/")[-1]) for one in result["problems"]} == {
        third: ("refused", "invalid-task-transition"),
        wrong: ("refused", "invalid-payload"),
        missing: ("missing", "task-not-found"),
    }
    assert ((await lab.get(first))["priority"], (await lab.get(second))["payload"]) == (7, {"n": 22})
    assert [one["outcome"] for one in again["problems"]] == ["changed"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("edits", {"edits": []}),
        ("edits", {"edits": [{"id": str(uuid4())}]}),
        ("edits", {"edits": [{"id": str(uuid4()), "status": "cancelled"}]}),
        ("edits", {"edits": [{"id": "01a1fca0-0000-7000-8000-000000000000", "priority": 1}] * 2}),
        ("actions", {"action": "edit", "ids": []}),
        ("actions", {"action": "pause", "ids": [], "if_versions": {str(uuid4()): 1}}),
        ("freeze", {"limit": 10_001}),
        ("freeze", {"order": "best"}),
        ("window", {"first": str(uuid4()), "after": str(uuid4())}),
        ("window", {"before": str(uuid4()), "offset": 1}),
        ("window", {"after": "x"}),
    ],
)
async def test_what_is_no_bulk_request_is_refused(lab: Room, path: str, body: dict[str, Any]):
    """G9."""
    answer = await lab.client.post(f"/v1/tasks/{path}", json=body)

    assert (answer.status_code, problem(answer)) == (422, "validation-error")


async def test_another_users_tasks_are_refused_one_by_one(lab: Room, user: NewUser):
    mine = (await lab.submit())["id"]
    bob = await user("bob")

    acted = await act(bob, "cancel", await freeze(bob, filter={"job": lab.job}))
    edited = (await bob.post("/v1/tasks/edits", json={"edits": [{"id": mine, "priority": 1}]})).json()

    for result in (acted, edited):
        assert [(one["id"], one["type"].rsplit("/")[-1]) for one in result["problems"]] == [(mine, "forbidden")]
    assert (await lab.get(mine))["status"] == "pending"


def pausing(ids: list[str]) -> dict[str, Any]:
    return {"action": "pause", "ids": ids}


def editing(ids: list[str]) -> dict[str, Any]:
    return {"edits": [{"id": task_id, "priority": 1} for task_id in ids]}


@pytest.mark.parametrize(("route", "asked"), [("actions", pausing), ("edits", editing)])
async def test_when_the_database_goes_between_two_portions_what_was_done_is_told_and_the_rest_is_untried(
    route: str, asked: Callable[[list[str]], Any], lab: Room, served: Served, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(bulk, "CHUNK", 2)
    ids = [(await lab.submit(n))["id"] for n in range(5)]
    store, writes = served.engine.store, 0
    write = store.write

    @asynccontextmanager
    async def failing(**how: Any) -> AsyncIterator[Any]:
        nonlocal writes
        writes += 1
        if writes > 1:
            raise StoreUnavailable("the disk is full")
        async with write(**how) as tx:
            yield tx

    monkeypatch.setattr(store, "write", failing)
    some = (await lab.client.post(f"/v1/tasks/{route}", json=asked(ids))).json()
    none = await lab.client.post(f"/v1/tasks/{route}", json=asked(ids[2:]))

    assert list(some["versions"]) == ids[:2]
    assert [(one["id"], one["outcome"], one["status"]) for one in some["problems"]] == [
        (task_id, "untried", "pending") for task_id in ids[2:]
    ]
    assert (none.status_code, problem(none)) == (503, "store-unavailable")


async def test_a_window_is_given_over_http_as_on_the_socket(lab: Room):
    ids = [(await lab.submit(n))["id"] for n in range(5)]

    async def look(**wanted: Any) -> tuple[list[str], int, int]:
        answer = (await lab.client.post("/v1/tasks/window", json=wanted)).json()
        return [item["id"] for item in answer["items"]], answer["total"], answer["ahead"]

    assert await look(order="position", limit=2) == (ids[:2], 5, 0)
    assert await look(order="position", after=ids[1], limit=2) == (ids[2:4], 5, 2)
    assert await look(order="position", before=ids[4], limit=2) == (ids[2:4], 5, 2)
    assert await look(first=ids[1], limit=2) == ([ids[1], ids[0]], 5, 3)


@pytest.mark.parametrize("wanted", [{part: []} for part in ("status", *sorted(SEVERAL))] + [{"not_tag": [""]}], ids=str)
async def test_a_part_of_a_filter_without_a_value_does_not_select_every_task(lab: Room, wanted: dict[str, Any]):
    task = await lab.submit()

    acted = await lab.client.post("/v1/tasks/actions", json={"action": "cancel", "filter": wanted})
    frozen = await lab.client.post("/v1/tasks/freeze", json={"filter": wanted})

    for answer in (acted, frozen):
        assert (answer.status_code, problem(answer)) == (422, "validation-error")
        assert f"filter.{next(iter(wanted))}" in answer.json()["detail"]
    assert (await lab.get(task["id"]))["status"] == "pending"
