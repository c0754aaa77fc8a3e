"""Row Z12, clause by clause: the row first, then the broker, and nothing that an executor said is overwritten."""

import asyncio
from typing import Any

import pytest

from tests.internal.conftest import Serving
from tests.internal.site import Claim, PaperBroker, Site
from tests.live.sockets import connected
from treadle_server.access.principal import SYSTEM
from treadle_server.engine.commands import RegisterJob
from treadle_server.engine.commands.internal import NOT_DISPATCHED

JOB = "@internal:tasks:add"


async def total(dispatcher: Site) -> int:
    return (await dispatcher.http.get("/v1/tasks", params={"limit": 0})).json()["total"]


async def test_z12_a_job_without_an_executor_is_503_before_any_row(dispatcher: Site, broker: PaperBroker):
    strange = RegisterJob(
        principal=SYSTEM, room="@internal", category="tasks", name="strange", schema="{}", retain=True
    )
    await dispatcher.engine.run(strange)

    refused = await dispatcher.post("strange")
    tasks = [{"job": job, "payload": {"a": 1}} for job in (JOB, "@internal:tasks:strange")]
    mixed = await dispatcher.http.post("/v1/rooms/lab/tasks", json={"tasks": tasks})

    for answer in (refused, mixed):
        assert answer.status_code == 503
        assert answer.json()["type"] == "/v1/problems/internal-job-not-configured"
        assert "@internal:tasks:strange" in answer.json()["detail"]
    assert await total(dispatcher) == 0
    assert broker.claims == []


async def test_z12_the_row_is_claimed_and_committed_before_the_broker_is_asked(dispatcher: Site, broker: PaperBroker):
    seen: list[Claim] = []

    async def look(claim: Claim) -> None:
        seen.append(await dispatcher.get(claim))

    broker.on_kick = look

    answer = await dispatcher.post(payload={"a": 1, "b": 2})

    assert answer.status_code == 202
    assert answer.headers["Location"] == f"/v1/tasks/{answer.json()['id']}"
    assert answer.headers["Retry-After"] == "1"
    assert [(task["id"], task["status"], task["run_id"]) for task in seen] == [(answer.json()["id"], "claimed", 0)]
    assert (answer.json()["status"], answer.json()["queue_position"]) == ("claimed", None)
    [claim] = broker.claims
    assert claim["payload"] == {"a": 1, "b": 2}
    assert claim["job_name"] == JOB


async def test_z12_a_dispatch_that_fails_is_answered_202_with_the_failed_task(dispatcher: Site, broker: PaperBroker):
    async def refuse(claim: Claim) -> None:
        raise ConnectionError("the broker is away")

    broker.on_kick = refuse

    task = await dispatcher.submit(max_retries=3, max_requeues=3)

    assert (task["status"], task["error"]) == ("failed", "Failed to dispatch to internal executor")
    assert task["reason"] == "internal-error"
    [run] = await dispatcher.runs(task)
    assert (run["status"], run["error"]) == ("exception", NOT_DISPATCHED)
    assert "the broker is away" in run["traceback"]


async def test_z12_a_broker_that_hangs_counts_as_one_that_refuses(
    dispatcher: Site, broker: PaperBroker, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("treadle_server.internal.bridge.DISPATCH_SECONDS", 0.05)

    async def hang(claim: Claim) -> None:
        await asyncio.Event().wait()

    broker.on_kick = hang

    task = await dispatcher.submit()

    assert (task["status"], task["error"]) == ("failed", NOT_DISPATCHED)
    # Should the message have got through after all, nobody starts it.
    assert await dispatcher.start(broker.claims[0]) == 409


async def test_z12_a_broker_whose_client_is_cancelled_counts_as_one_that_refuses(dispatcher: Site, broker: PaperBroker):
    async def break_off(claim: Claim) -> None:
        raise asyncio.CancelledError

    broker.on_kick = break_off

    task = await dispatcher.submit()

    assert (task["status"], task["error"]) == ("failed", NOT_DISPATCHED)
    [run] = await dispatcher.runs(task)
    assert "the broker's client was cancelled" in run["traceback"]


async def test_a_server_starts_and_looks_again_beside_a_broker_whose_client_is_cancelled(
    serving: Serving, broker: PaperBroker, monkeypatch: pytest.MonkeyPatch
):
    async def break_off() -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(broker, "startup", break_off)

    async with serving() as dispatcher:
        # Its service tries again, as after any other error.
        with pytest.raises(RuntimeError, match="the broker's client was cancelled"):
            await dispatcher.bridge.turn()
        task = await dispatcher.submit()

    assert task["status"] == "claimed"


@pytest.mark.parametrize("moment", ["startup", "shutdown"])
async def test_a_server_starts_and_ends_beside_a_broker_that_hangs(
    serving: Serving, broker: PaperBroker, moment: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("treadle_server.internal.bridge.DISPATCH_SECONDS", 0.05)
    monkeypatch.setattr(broker, moment, asyncio.Event().wait)

    async with asyncio.timeout(20), serving() as dispatcher:
        task = await dispatcher.submit()

    assert task["status"] == "claimed"


async def test_z12_an_executor_may_report_before_the_submit_returns(dispatcher: Site, broker: PaperBroker):
    async def execute(claim: Claim) -> None:
        assert await dispatcher.start(claim) == 200
        assert await dispatcher.report(claim, "completed", result=42) == 200

    broker.on_kick = execute

    task = await dispatcher.submit()

    assert (task["status"], task["result"]) == ("completed", 42)


async def test_z12_what_an_executor_reported_is_never_overwritten_by_a_dispatch_that_failed(
    dispatcher: Site, broker: PaperBroker
):
    async def start_and_break(claim: Claim) -> None:
        assert await dispatcher.start(claim) == 200
        raise ConnectionError("the answer was lost")

    broker.on_kick = start_and_break

    task = await dispatcher.submit()

    assert task["status"] == "running"
    assert await dispatcher.report(broker.claims[0], "completed", result=1) == 200
    assert (await dispatcher.get(task))["status"] == "completed"


async def test_z12_no_task_available_is_told_of_them(dispatcher: Site):
    async with connected(dispatcher.served) as socket:
        await socket.call("every")

        task = await dispatcher.submit()
        await socket.call("ping")

        events = [event for push in socket.pushes for event in push["events"]]
    assert [e["task"]["status"] for e in events if e["type"] == "task.updated"] == ["pending", "claimed"]
    assert all(e["task"]["id"] == task["id"] for e in events if e["type"] == "task.updated")
    assert "task.available" not in {event["type"] for event in events}


async def test_z12_on_the_socket_a_submit_is_answered_after_the_dispatch_too(dispatcher: Site, broker: PaperBroker):
    async def refuse(claim: Claim) -> None:
        if claim["payload"]["a"] == 2:
            raise ConnectionError("not this one")

    broker.on_kick = refuse
    tasks: list[dict[str, Any]] = [{"job": JOB, "payload": {"a": a}} for a in (1, 2)]

    async with connected(dispatcher.served) as socket:
        together = await socket.call("submit", room="lab", tasks=tasks)
        each = await socket.call("submit_each", room="lab", tasks=tasks)

    for answer in (together, each):
        assert [task["status"] for task in answer["tasks"]] == ["claimed", "failed"]


async def test_z12_the_same_id_again_is_the_same_task_and_dispatched_once(dispatcher: Site, broker: PaperBroker):
    first = await dispatcher.submit(id="0199a0a0-0000-7000-8000-000000000001")

    again = await dispatcher.post(id=first["id"])

    assert (again.status_code, again.json()["status"]) == (200, "claimed")
    assert len(broker.claims) == 1


async def test_z12_a_run_that_is_sent_twice_is_started_once(dispatcher: Site, broker: PaperBroker):
    await dispatcher.submit()
    [claim] = broker.claims

    assert [await dispatcher.start(claim), await dispatcher.start(claim)] == [200, 409]


async def test_z12_what_executors_show_reports_of_runs_and_does_nothing_else_g10(dispatcher: Site, broker: PaperBroker):
    await dispatcher.submit()
    [claim] = broker.claims
    headers = {"Authorization": f"Bearer {claim['credentials']}"}

    async def status(method: str, path: str, body: object = None) -> int:
        return (await dispatcher.http.request(method, path, json=body, headers=headers)).status_code

    assert await status("POST", f"/v1/rooms/lab/tasks/{JOB}", {"payload": {"a": 1}}) == 403
    assert await status("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "mine"}) == 403
    assert await status("POST", f"/v1/tasks/{claim['id']}/pause", {}) == 404
    assert await status("GET", "/v1/tokens") == 403
    other = (await dispatcher.http.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "other"})).json()
    task = (await dispatcher.http.post(f"/v1/rooms/lab/tasks/{other['full_name']}")).json()
    await dispatcher.http.post("/v1/tasks/claim", json={"worker_id": other["worker_id"]})
    assert await status("POST", f"/v1/tasks/{task['id']}/runs/0/completed") == 404
    assert (await dispatcher.http.get(f"/v1/tasks/{task['id']}")).json()["status"] == "claimed"
    assert await dispatcher.start(claim) == 200
    assert await dispatcher.report(claim, "completed") == 200
    assert await dispatcher.start(claim) == 409


async def test_z12_what_executors_show_ends_after_the_last_run_it_was_given_to(dispatcher: Site, broker: PaperBroker):
    await dispatcher.submit()
    await dispatcher.pass_time(3599)
    await dispatcher.submit()
    await dispatcher.pass_time(3)
    await dispatcher.submit()
    first, second, third = [claim["credentials"] for claim in broker.claims]

    assert first == second != third
    assert await dispatcher.start(broker.claims[1]) == 200
    await dispatcher.pass_time(3600 + 60)
    assert await dispatcher.start({**broker.claims[2], "credentials": first}) == 401


async def test_z3_a_remote_worker_that_registers_the_job_is_never_given_what_waits(serving: Serving):
    async with serving(concurrency=1) as dispatcher:
        await dispatcher.submit()
        waiting = await dispatcher.submit()
        body = {"category": "tasks", "name": "add", "replace": True, "retain": True}
        worker = (await dispatcher.http.post("/v1/workers", json={"concurrency": 5})).json()["id"]
        linked = await dispatcher.http.put("/v1/rooms/@internal/jobs", json={**body, "worker_id": worker})
        claimed = await dispatcher.http.post("/v1/tasks/claim", json={"worker_id": worker, "tasks": 5})
        async with connected(dispatcher.served) as socket:
            await socket.call("open", worker={"concurrency": 5}, links=[JOB])
            await socket.call("ping")
            pushed = [push for push in socket.pushes if push["push"] == "claim"]

        assert linked.status_code == 200
        assert claimed.json()["tasks"] == []
        assert pushed == []
        assert (await dispatcher.get(waiting))["status"] == "pending"


async def test_what_is_beyond_the_concurrency_waits_with_a_position_and_is_dispatched_when_there_is_room(
    serving: Serving, broker: PaperBroker
):
    async with serving(concurrency=1) as dispatcher:
        first, second, third = [await dispatcher.submit() for _ in range(3)]

        assert [first["status"], second["status"], third["status"]] == ["claimed", "pending", "pending"]
        assert [second["queue_position"], third["queue_position"]] == [1, 2]
        assert [claim["id"] for claim in broker.claims] == [first["id"]]

        await dispatcher.start(broker.claims[0])
        await dispatcher.report(broker.claims[0], "completed")
        await dispatcher.until(second, lambda task: task["status"] == "claimed" and len(broker.claims) == 2)

        assert (await dispatcher.get(third))["queue_position"] == 1


async def test_a_dispatch_that_failed_leaves_its_place_to_the_next(serving: Serving, broker: PaperBroker):
    async with serving(concurrency=1) as dispatcher:

        async def refuse(claim: Claim) -> None:
            raise ConnectionError

        broker.on_kick = refuse
        await dispatcher.submit()
        broker.on_kick = None

        assert (await dispatcher.submit())["status"] == "claimed"


async def test_a_paused_queue_and_a_task_that_is_due_later_wait_and_are_dispatched_then(
    dispatcher: Site, broker: PaperBroker
):
    path = f"/v1/rooms/@internal/jobs/{JOB}"
    await dispatcher.http.patch(path, json={"paused": True})
    paused = await dispatcher.submit()
    assert (paused["status"], paused["queue_position"]) == ("pending", 1)

    await dispatcher.http.patch(path, json={"paused": False})
    await dispatcher.until(paused, lambda task: task["status"] == "claimed")
    later = await dispatcher.submit(delay=60)

    assert later["status"] == "scheduled"
    assert [claim["id"] for claim in broker.claims] == [paused["id"]]


async def test_tasks_of_one_target_are_dispatched_one_at_a_time(dispatcher: Site, broker: PaperBroker):
    first, second = await dispatcher.submit(target="lathe"), await dispatcher.submit(target="lathe")

    assert [first["status"], second["status"]] == ["claimed", "pending"]
    await dispatcher.start(broker.claims[0])
    await dispatcher.report(broker.claims[0], "completed")
    await dispatcher.until(second, lambda task: task["status"] == "claimed")


async def test_a_pool_means_nothing_to_an_internal_task(dispatcher: Site, broker: PaperBroker):
    task = await dispatcher.submit(pool="gpu")

    assert (task["status"], task["pool"]) == ("claimed", None)


async def test_the_executors_stand_among_the_workers_with_what_they_run(dispatcher: Site):
    task = await dispatcher.submit()

    [worker] = (await dispatcher.http.get("/v1/workers")).json()["items"]

    assert (worker["name"], worker["owner"], worker["concurrency"]) == ("broker", "@internal", 100)
    assert sorted(worker["jobs"]) == [JOB, "@internal:tasks:counts"]
    assert [run["task_id"] for run in worker["running"]] == [task["id"]]
    ready = (await dispatcher.http.get("/readyz")).json()
    assert ready["services"]["internal"] == "ok"
