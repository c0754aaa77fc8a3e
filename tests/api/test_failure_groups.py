"""Failures in groups: over HTTP and on the socket, by whom they are seen, and a verb for all of one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from tests.api.rooms import Room, Scoped, make_room
from tests.clients import client_at
from treadle_server.engine.commands import MissDeadlines
from treadle_server.testing import Served, serve

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


async def test_a_task_that_fails_by_its_deadline_without_a_run_is_in_a_group(lab: Room, served: Served) -> None:
    waits = await lab.submit(delay=3600)
    tried = await fail(lab, "ValueError", max_retries=3, retry_base=3600)
    now = datetime.now(UTC)
    passed = {"scheduled_at": now - timedelta(seconds=2), "deadline": now - timedelta(seconds=1)}
    for one in (waits, tried):
        edit = {name: at.isoformat() for name, at in passed.items()}
        assert (await lab.client.patch(f"/v1/tasks/{one['id']}", json=edit)).status_code == 200
    await served.engine.run(MissDeadlines())
    assert {(await lab.get(one["id"]))["status"] for one in (waits, tried)} == {"failed"}

    found = {one["kind"]: one for one in await groups(lab.client)}

    late = found["deadline-exceeded"]
    assert (late["place"], late["error"], late["failed"]) == (lab.job, "the deadline has passed", 1)
    assert (late["task_id"], sum(late["per_minute"])) == (waits["id"], 1)
    assert [item["id"] for item in await listed(lab, failure=late["id"])] == [waits["id"]]
    # The other one stays where its last run failed: that is what to mend.
    assert (found["ValueError"]["failed"], found["ValueError"]["retrying"]) == (1, 0)


async def test_a_queue_tells_how_many_of_its_tasks_failed_and_wait_for_another_try(lab: Room) -> None:
    await fail(lab, "ValueError", max_retries=3, retry_base=3600)
    await fail(lab, "ValueError")
    await lab.submit(delay=3600)
    other = await make_room(lab.client, name="other")

    shown = {one["full_name"]: one for one in (await lab.client.get("/v1/rooms/lab/jobs")).json()["items"]}

    assert (shown[lab.job]["retrying"], shown[lab.job]["counts"]["failed"]) == (1, 1)
    assert shown[lab.job]["counts"]["scheduled"] == 2
    assert shown[other.job]["retrying"] == 0


async def test_a_task_whose_next_try_is_due_waits_for_it_in_line_in_its_queue_and_in_its_group(lab: Room) -> None:
    due = await fail(lab, "ValueError", max_retries=3, retry_base=0)
    await lab.submit()
    assert (await lab.get(due["id"]))["status"] == "pending"

    (shown,) = (await lab.client.get("/v1/rooms/lab/jobs")).json()["items"]
    (group,) = await groups(lab.client)

    assert (shown["retrying"], shown["counts"]) == (1, {"pending": 2})
    assert group["retrying"] == 1


async def test_failures_of_the_last_hour_are_known_after_a_restart_and_rates_say_since_when(
    database_url: str, tmp_path: Path
) -> None:
    async with serve(database_url, data_dir=tmp_path / "data") as first, client_at(first.url, first.headers) as client:
        lab = await make_room(client)
        await fail(lab, "ValueError")
        await fail(lab, "ValueError", max_retries=3, retry_base=3600)
        before = (await client.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()["stats"]
    async with serve(database_url, data_dir=tmp_path / "data") as again, client_at(again.url, again.headers) as client:
        after = (await client.get(f"/v1/rooms/lab/jobs/{lab.job}")).json()["stats"]

    assert (before["failed_last_hour"], before["retried_last_hour"]) == (1, 1)
    assert (after["failed_last_hour"], after["retried_last_hour"]) == (1, 1)
    assert after["since"] > before["since"]
