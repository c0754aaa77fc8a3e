"""Targets over plain HTTP: whether each is held, by whom and why, and who waits (L7)."""

from datetime import datetime, timedelta
from typing import Any

import httpx

from tests.api.rooms import Room, make_room, problem


async def target(lab: Room, name: str = "gpu") -> dict[str, Any]:
    answer = await lab.client.get(f"/v1/rooms/{lab.room}/targets/{name}")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def steer(lab: Room, task: dict[str, Any], verb: str) -> None:
    answer = await lab.client.post(f"/v1/tasks/{task['id']}/{verb}")
    assert answer.status_code == 200, answer.text


async def report(lab: Room, task: dict[str, Any], kind: str, run: int = 0, **details: Any) -> None:
    answer = await lab.client.post(f"/v1/tasks/{task['id']}/runs/{run}/{kind}", json=details or None)
    assert answer.status_code == 200, answer.text


async def test_a_target_tells_its_holder_why_since_when_and_who_waits_l7(lab: Room):
    first = await lab.submit(1, target="gpu", max_retries=1, retry_base=3600)
    later = await lab.submit(2, target="gpu")

    free = await target(lab)
    assert (free["held"], free["holders"], free["cause"], free["since"]) == (False, [], None, None)
    assert (free["waiting"], free["next_task_id"]) == (2, first["id"])

    claimed = (await lab.claim())["task"]
    assert claimed["id"] == first["id"]
    urgent = await lab.submit(3, target="gpu", priority=9)
    held = await target(lab)
    assert (held["held"], held["cause"], held["waiting"], held["next_task_id"]) == (True, "claimed", 2, urgent["id"])
    [holder] = held["holders"]
    assert (holder["task_id"], holder["run_id"], holder["worker_id"]) == (first["id"], 0, lab.worker_id)
    assert (holder["since"], holder["until"]) == (claimed["claimed_at"], claimed["taken_until"])

    await report(lab, first, "started")
    running = (await target(lab))["holders"][0]
    assert (running["cause"], running["status"]) == ("running", "running")

    await report(lab, first, "failed", error="x")
    retry = await target(lab)
    again = datetime.fromisoformat(retry["until"]) - datetime.fromisoformat(retry["since"])
    assert (retry["cause"], retry["holders"][0]["status"], again) == ("retry", "scheduled", timedelta(hours=1))
    assert (await lab.claim())["task"] is None
    assert (await lab.get(later["id"]))["blocked_by"] == [first["id"]]


async def test_two_blockers_one_resumed_still_blocked_by_the_other_l7(lab: Room):
    failed, paused, waiting = [await lab.submit(n, target="gpu") for n in range(3)]
    await lab.start()
    await report(lab, failed, "failed", error="x")
    await steer(lab, paused, "pause")

    both = await target(lab)
    assert {(h["task_id"], h["cause"]) for h in both["holders"]} == {
        (failed["id"], "failed"), (paused["id"], "paused"),
    }  # fmt: skip
    assert both["until"] is None
    assert set((await lab.get(waiting["id"]))["blocked_by"]) == {failed["id"], paused["id"]}

    await steer(lab, failed, "resume")

    one = await target(lab)
    assert ([h["task_id"] for h in one["holders"]], one["cause"]) == ([paused["id"]], "paused")
    assert (one["waiting"], one["next_task_id"]) == (2, failed["id"])
    for task in (failed, waiting):
        assert (await lab.get(task["id"]))["blocked_by"] == [paused["id"]]
    assert (await lab.claim())["task"] is None

    await steer(lab, paused, "resolve")

    assert (await lab.get(failed["id"]))["blocked_by"] is None
    assert (await lab.claim())["task"]["id"] == failed["id"]


async def test_the_hold_of_a_cancelled_run_is_shown_until_its_code_has_stopped_l7(lab: Room):
    cancelled, waiting = await lab.submit(1, target="gpu"), await lab.submit(2, target="gpu")
    lease = (await lab.start())["taken_until"]
    await steer(lab, cancelled, "cancel")

    [holder] = (await target(lab))["holders"]
    assert (holder["task_id"], holder["status"], holder["cause"]) == (cancelled["id"], "cancelled", "stopping")
    assert (holder["run_id"], holder["until"]) == (0, lease)
    assert (await lab.get(waiting["id"]))["blocked_by"] == [cancelled["id"]]

    await report(lab, cancelled, "stopped")

    assert (await target(lab))["held"] is False
    assert (await lab.claim())["task"]["id"] == waiting["id"]


async def test_a_task_run_again_while_its_old_code_stops_is_blocked_by_itself_l6(lab: Room):
    task = await lab.submit(1, target="gpu")
    await lab.start()
    await steer(lab, task, "cancel")
    await steer(lab, task, "rerun")

    assert (await lab.get(task["id"]))["blocked_by"] == [task["id"]]
    await report(lab, task, "stopped")
    assert (await lab.get(task["id"]))["blocked_by"] is None


async def test_a_list_and_a_submit_name_the_blockers_too_l7(lab: Room):
    first = await lab.submit(1, target="gpu")
    await lab.start()

    second = await lab.submit(2, target="gpu")
    other = await lab.submit(3, target="cpu")

    assert (second["blocked_by"], other["blocked_by"]) == ([first["id"]], None)
    page = (await lab.client.get("/v1/tasks")).json()
    assert [item["blocked_by"] for item in page["items"]] == [None, [first["id"]], None]


async def test_targets_are_listed_newest_first_and_by_filter(root: httpx.AsyncClient, lab: Room):
    den = await make_room(root, "den")
    await den.submit(0, target="gpu-1")
    for name in ("gpu-1", "gpu_2", "cpu"):
        await lab.submit(0, target=name)
    await lab.claim()

    async def names(query: str = "") -> list[str]:
        page = (await root.get(f"/v1/rooms/lab/targets?{query}")).json()
        assert (page["limit"], page["offset"]) == (2 if "limit" in query else 50, 1 if "offset" in query else 0)
        assert page["total"] == (3 if "limit" in query else len(page["items"]))
        return [item["name"] for item in page["items"]]

    assert await names() == ["cpu", "gpu_2", "gpu-1"]
    assert await names("limit=2&offset=1") == ["gpu_2", "gpu-1"]
    assert await names("held=true") == ["gpu-1"]
    assert await names("held=false") == ["cpu", "gpu_2"]
    assert await names("text=GPU") == ["gpu_2", "gpu-1"]
    assert await names("text=u_") == ["gpu_2"]
    assert await names("text=gpu&held=false") == ["gpu_2"]
    refused = await root.get("/v1/rooms/lab/targets?held=perhaps")
    assert (refused.status_code, problem(refused)) == (422, "validation-error")


async def test_a_target_that_nobody_named_is_not_found_and_a_bad_room_is_refused(lab: Room):
    for name in ("rack/1 #2", "gpu"):
        await lab.submit(0, target=name)

    assert (await target(lab, "rack%2F1%20%232"))["name"] == "rack/1 #2"
    for name, said in (("rack", "target-not-found"), ("rack/2", "target-not-found"), ("x%00", "not-found")):
        answer = await lab.client.get(f"/v1/rooms/lab/targets/{name}")
        assert (answer.status_code, problem(answer)) == (404, said)
    elsewhere = await lab.client.get("/v1/rooms/den/targets/gpu")
    assert (elsewhere.status_code, problem(elsewhere)) == (404, "target-not-found")
    for path in ("a@b/targets", "a@b/targets/x"):
        answer = await lab.client.get(f"/v1/rooms/{path}")
        assert (answer.status_code, problem(answer)) == (400, "invalid-room-id")
