"""Failures in groups: over HTTP and on the socket, by whom they are seen, and a verb for all of one."""

from typing import Any

import httpx

from tests.api.rooms import Room, Scoped, make_room

TRACE = """Traceback (most recent call last):
  File "/srv/app/{file}.py", line {line}, in {file}
    raise
"""


async def fail(room: Room, kind: str, file: str = "charge", line: int = 1, **options: Any) -> dict[str, Any]:
    """Have a new task fail, by an error of a class that was raised in a file."""
    submitted = await room.submit(**options)
    task = await room.start()
    assert task["id"] == submitted["id"]
    report = {"error": f"{kind}: no {line}", "traceback": TRACE.format(file=file, line=line)}
    answer = await room.client.post(f"/v1/tasks/{task['id']}/runs/{task['run_id']}/failed", json=report)
    assert answer.status_code == 200, answer.text
    return task


async def groups(client: httpx.AsyncClient, **params: str) -> list[dict[str, Any]]:
    answer = await client.get("/v1/failures", params=params)
    assert answer.status_code == 200, answer.text
    assert answer.json()["is_capped"] is False
    return answer.json()["items"]  # type: ignore[no-any-return]


async def test_failures_are_put_together_by_their_error_and_where_it_was_raised(lab: Room) -> None:
    first = await fail(lab, "ValueError", line=1)
    await fail(lab, "KeyError")
    await fail(lab, "ValueError", file="refund")
    again = await fail(lab, "ValueError", line=7, max_retries=3, retry_base=3600)

    found = await groups(lab.client)

    assert [(one["kind"], one["place"], one["runs"]) for one in found] == [
        ("ValueError", "app/charge.py in charge", 2),
        ("ValueError", "app/refund.py in refund", 1),
        ("KeyError", "app/charge.py in charge", 1),
    ]
    both = found[0]
    assert (both["failed"], both["retrying"], both["error"]) == (1, 1, "ValueError: no 7")
    assert (both["task_id"], both["jobs"]) == (again["id"], [lab.job])
    assert (sum(both["per_minute"]), len(both["per_minute"]), both["per_minute"][-1] > 0) == (2, 60, True)
    assert both["first_seen_at"] < both["last_seen_at"]
    assert [item["id"] for item in await listed(lab, failure=both["id"])] == [again["id"], first["id"]]
    assert [item["id"] for item in await listed(lab, error="KeyError")] != []


async def listed(lab: Room, **params: str) -> list[dict[str, Any]]:
    return (await lab.client.get("/v1/tasks", params=params)).json()["items"]  # type: ignore[no-any-return]


async def test_all_that_failed_by_one_error_is_retried_at_once_and_only_that(lab: Room) -> None:
    mine = {(await fail(lab, "ValueError", line=line))["id"] for line in range(3)}
    other = await fail(lab, "KeyError")
    [_, group] = await groups(lab.client)
    chosen = {"failure": group["id"], "status": ["failed"]}

    done = (await lab.client.post("/v1/tasks/actions", json={"action": "resume", "filter": chosen})).json()

    assert set(done["versions"]) == mine
    assert (await lab.get(other["id"]))["status"] == "failed"
    assert {one["kind"]: one["failed"] for one in await groups(lab.client)} == {"ValueError": 0, "KeyError": 1}
    assert await listed(lab, failure=group["id"], status="failed") == []


async def test_what_was_stopped_by_hand_is_no_failure(lab: Room) -> None:
    await lab.submit()
    task = await lab.start()
    await lab.client.post(f"/v1/tasks/{task['id']}/pause")
    await lab.client.post(f"/v1/tasks/{task['id']}/runs/0/failed", json={"error": "ValueError: cut off"})
    await lab.submit()
    gone = await lab.start()
    report = {"reason": "worker-shutdown", "error": "the worker was shut down"}
    await lab.client.post(f"/v1/tasks/{gone['id']}/runs/0/exception", json=report)

    assert await groups(lab.client) == []


async def test_groups_are_those_of_the_rooms_that_one_reads_and_of_the_room_or_job_that_is_named(
    lab: Room, scoped: Scoped
) -> None:
    den = await make_room(lab.client, "den")
    await fail(lab, "ValueError")
    await fail(den, "ValueError")
    await fail(den, "KeyError")
    reader = await scoped("queue:read:lab")

    assert [(one["kind"], one["runs"], one["jobs"]) for one in await groups(reader)] == [("ValueError", 1, [lab.job])]
    assert [(one["kind"], one["runs"]) for one in await groups(lab.client)] == [("KeyError", 1), ("ValueError", 2)]
    assert [one["runs"] for one in await groups(lab.client, room="den")] == [1, 1]
    assert [one["jobs"] for one in await groups(lab.client, job=lab.job)] == [[lab.job]]
    assert await groups(lab.client, job="lab:tasks:none") == []
    assert [one["runs"] for one in await groups(reader, room="den")] == []


async def test_a_failure_is_forgotten_with_its_task(lab: Room) -> None:
    await fail(lab, "ValueError")

    pruned = await lab.client.post("/v1/prune", json={"older_than": 0, "status": ["failed"]})

    assert pruned.status_code == 200, pruned.text
    assert await groups(lab.client) == []
