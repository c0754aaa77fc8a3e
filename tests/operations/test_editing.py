"""A waiting task is edited in everything that a submit says of it, by the same rules (E9)."""

import asyncio
from typing import Any

from tests.api.rooms import SCHEMA, Room, Scoped, make_room, problem
from treadle.client.options import Options, TaskEdits
from treadle.wire.edits import EDITABLE, TaskChanges
from treadle.wire.options import CLEARED
from treadle.wire.tasks import TaskSubmit

LATER, LATEST = "2999-01-01T00:00:00Z", "2999-01-02T00:00:00Z"
CHANGES: dict[str, tuple[Any, Any]] = {
    "priority": (1, "x"),
    "max_retries": (2, -1),
    "max_requeues": (4, 1.5),
    "retry_base": (0.5, -1),
    "retry_multiplier": (3.0, 0.5),
    "retry_randomization": (0.25, 11),
    "timeout": (9.0, 0),
    "lease_seconds": (20.0, 0),
    "heartbeat_increment": (5.0, -1),
    "start_timeout": (7.0, "7"),
    "on_failure": ("release", "wait"),
    "weight": (3, 0),
    "budget": (12.5, -1),
    "pool": ("gpu", ""),
    "target": ("robot", "x" * 256),
    "tags": ({"order": "A-17"}, {"": "x"}),
    "scopes": (["queue:read:lab"], ["two words"]),
    "unique_key": ("k", ""),
    "scheduled_at": (LATER, "soon"),
    "deadline": (LATEST, "1800-01-01T00:00:00Z"),
    "limits": ([{"name": "api", "key": "acme", "weight": 1}], [{"name": "api", "weight": 0}]),
    "payload": ({"n": 7}, {"n": "x"}),
}
"""What each field is changed to, and what it can't be."""


WHERE_IT_BELONGS = ("traceparent", "tracestate", "baggage", "flow_id", "flow_name", "depends_on", "arguments_from")
"""The trace and the place in a flow, which a submit says once for all."""


def test_what_an_edit_may_change_is_what_a_submit_says_and_the_sdk_knows_its_name() -> None:
    assert (
        {*CHANGES, "delay", "on_dependency_failure"}
        == EDITABLE
        == TaskSubmit.model_fields.keys() - {"id", *WHERE_IT_BELONGS}
    )
    assert TaskEdits.__annotations__.keys() == TaskChanges.model_fields.keys() - {"if_version"}
    assert Options.model_fields.keys() == EDITABLE - {"payload"} | {"id", "depends_on", "flow_id", "flow_name"}


async def test_every_field_of_a_submit_is_edited_and_a_bad_value_is_refused_as_at_submit(lab: Room) -> None:
    await lab.client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
    task = await lab.submit(1)
    url = f"/v1/tasks/{task['id']}"

    for name, (good, bad) in CHANGES.items():
        wrong = await lab.client.patch(url, json={name: bad, "priority": 9} if name != "priority" else {name: bad})
        new = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 1}, name: bad})
        assert (wrong.status_code, problem(wrong)) == (new.status_code, problem(new)), name
        assert wrong.status_code == 422, name
        edited = await lab.client.patch(url, json={name: good})
        assert edited.status_code == 200, edited.text
        assert edited.json()[name] == good, name

    shown = await lab.get(task["id"])
    assert {name: shown[name] for name in CHANGES} == {name: good for name, (good, _) in CHANGES.items()}
    assert (shown["status"], shown["version"]) == ("scheduled", 1 + len(CHANGES))


async def test_null_takes_away_what_a_task_need_not_have_and_nothing_else(lab: Room) -> None:
    await lab.client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
    options = {name: good for name, (good, _) in CHANGES.items() if name != "payload"}
    task = await lab.submit(1, **options)
    url = f"/v1/tasks/{task['id']}"

    cleared = await lab.client.patch(url, json=dict.fromkeys(CLEARED))
    kept = [await lab.client.patch(url, json={name: None}) for name in sorted(EDITABLE - CLEARED)]

    assert cleared.status_code == 200, cleared.text
    shown = await lab.get(task["id"])
    assert {name: shown[name] for name in CLEARED} == dict.fromkeys(CLEARED) | {"heartbeat_increment": 20.0}
    assert [(answer.status_code, problem(answer)) for answer in kept] == [(422, "validation-error")] * len(kept)
    assert shown["version"] == 2


async def test_a_unique_key_that_another_task_holds_is_a_conflict_and_one_that_was_let_go_is_free(lab: Room) -> None:
    holder, task = await lab.submit(1, unique_key="k"), await lab.submit(2, priority=3)
    url = f"/v1/tasks/{task['id']}"

    held = await lab.client.patch(url, json={"unique_key": "k", "priority": 4})
    many = await lab.client.post("/v1/tasks/edits", json={"edits": [{"id": task["id"], "unique_key": "k"}]})
    mine = await lab.client.patch(f"/v1/tasks/{holder['id']}", json={"unique_key": "k"})
    freed = await lab.client.patch(f"/v1/tasks/{holder['id']}", json={"unique_key": None})
    taken = await lab.client.patch(url, json={"unique_key": "k"})
    again = await lab.client.post(f"/v1/rooms/lab/tasks/{lab.job}", json={"payload": {"n": 3}, "unique_key": "k"})

    assert (held.status_code, problem(held)) == (409, "task-conflict")
    assert holder["id"] in held.json()["detail"]
    assert many.json()["problems"][0]["outcome"] == "refused"
    assert (mine.status_code, freed.status_code, taken.status_code) == (200, 200, 200)
    assert (await lab.get(task["id"]))["priority"] == 3
    assert (again.status_code, again.json()["id"]) == (200, task["id"])


async def test_of_many_who_want_a_unique_key_at_once_one_gets_it(lab: Room) -> None:
    tasks = [await lab.submit(n) for n in range(6)]

    edits = (lab.client.patch(f"/v1/tasks/{task['id']}", json={"unique_key": "k"}) for task in tasks)
    answers = await asyncio.gather(*edits)

    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409, 409]


async def test_a_deadline_before_the_task_is_due_is_refused_whichever_of_them_is_edited(lab: Room) -> None:
    task = await lab.submit(1, scheduled_at=LATER)
    url = f"/v1/tasks/{task['id']}"

    early = await lab.client.patch(url, json={"deadline": LATER, "weight": 5})
    kept = await lab.client.patch(url, json={"deadline": LATEST})
    late = await lab.client.patch(url, json={"scheduled_at": "2999-01-03T00:00:00Z"})
    both = await lab.client.patch(url, json={"delay": 1, "scheduled_at": LATER})
    soon = await lab.client.patch(url, json={"delay": 0})

    assert [(answer.status_code, problem(answer)) for answer in (early, late, both)] == [(422, "validation-error")] * 3
    assert "deadline" in early.json()["detail"]
    assert (kept.json()["weight"], kept.json()["deadline"]) == (1, LATEST)
    assert (soon.json()["status"], soon.json()["queue_position"]) == ("pending", 1)


async def test_a_task_that_is_moved_to_a_pool_is_claimed_there_and_nowhere_else(lab: Room) -> None:
    task = await lab.submit(1)
    more = {"category": "tasks", "name": "add", "schema": SCHEMA}
    worker = (await lab.client.post("/v1/workers", json={"pool": "gpu"})).json()["id"]
    await lab.client.put("/v1/rooms/lab/jobs", json={**more, "worker_id": worker})

    await lab.client.patch(f"/v1/tasks/{task['id']}", json={"pool": "gpu"})
    none = await lab.claim()
    there = (await lab.client.post("/v1/tasks/claim", json={"worker_id": worker})).json()
    counts = {status: n for status, n in (await job_of(lab))["counts"].items() if n}

    assert none["task"] is None
    assert there["task"]["id"] == task["id"]
    assert counts == {"claimed": 1}


async def job_of(lab: Room) -> dict[str, Any]:
    return (await lab.client.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()  # type: ignore[no-any-return]


async def test_a_lease_takes_a_heartbeat_increment_along_that_was_as_long_as_it(lab: Room) -> None:
    same, own = await lab.submit(1, lease_seconds=60), await lab.submit(2, lease_seconds=60, heartbeat_increment=9)

    for task, increment in ((same, 20.0), (own, 9.0)):
        edited = await lab.client.patch(f"/v1/tasks/{task['id']}", json={"lease_seconds": 20})
        assert (edited.json()["lease_seconds"], edited.json()["heartbeat_increment"]) == (20.0, increment)


async def test_what_a_claimed_run_goes_by_is_what_was_edited(lab: Room) -> None:
    task = await lab.submit(1)
    edit = {"max_retries": 1, "retry_base": 0, "lease_seconds": 33, "tags": {"a": "b"}}
    await lab.client.patch(f"/v1/tasks/{task['id']}", json=edit)

    claimed = (await lab.start()) | {"n": 1}
    failed = await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/failed", json={"error": "no"})

    assert (claimed["lease_seconds"], claimed["tags"]) == (33.0, {"a": "b"})
    assert (failed.json()["status"], failed.json()["retry_count"]) == ("pending", 1)


async def test_nobody_gives_a_task_scopes_that_they_do_not_hold_nor_sends_its_scopes_elsewhere(
    lab: Room, scoped: Scoped
) -> None:
    """G10."""
    task = await lab.submit(1, scopes=["queue:read:other"])
    sam = await scoped("queue:control-task:lab", "queue:read:lab")
    url = f"/v1/tasks/{task['id']}"

    refused = [await sam.patch(url, json=body) for body in ({"scopes": ["queue:read:else"]}, {"pool": "mine"})]
    allowed = await sam.patch(url, json={"scopes": ["queue:read:lab"], "max_retries": 2})

    assert [(answer.status_code, problem(answer)) for answer in refused] == [(403, "forbidden")] * 2
    assert "queue:read:else" in refused[0].json()["detail"]
    assert (allowed.json()["scopes"], allowed.json()["version"]) == (["queue:read:lab"], 2)


async def test_an_edit_is_fenced_by_the_version_and_by_the_state(lab: Room) -> None:
    task = await lab.submit(1)
    url = f"/v1/tasks/{task['id']}"

    first = await lab.client.patch(url, json={"timeout": 5, "if_version": 1})
    stale = await lab.client.patch(url, json={"timeout": 6, "if_version": 1})
    await lab.start()
    running = await lab.client.patch(url, json={"timeout": 7})

    assert (first.json()["timeout"], first.json()["version"]) == (5.0, 2)
    assert (stale.status_code, problem(stale)) == (409, "task-conflict")
    assert (running.status_code, problem(running)) == (409, "invalid-task-transition")
    assert (await lab.get(task["id"]))["timeout"] == 5.0


async def test_a_fair_jobs_task_stays_in_its_rooms_line_when_its_pool_changes(root: Any) -> None:
    fair = await make_room(root, "@global", "fair", fair="room")
    placed = [
        (await root.post(f"/v1/rooms/{room}/tasks/{fair.job}", json={"payload": {"n": 1}})).json()["id"]
        for room in ("east", "east", "west")
    ]

    await root.patch(f"/v1/tasks/{placed[0]}", json={"pool": "gpu", "priority": -1})

    assert [(await fair.get(task_id))["queue_position"] for task_id in placed] == [2, 1, 1]
