"""A worker on the socket: given a slot, pushed claims, told what to stop, and gone."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
import pytest
import sqlalchemy as sa

from tests.conftest import FakeClock
from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, Socket, connected, ref, submit
from treadle import Worker, task
from treadle.worker.connector import Connector
from treadle_server.live import worker_ops
from treadle_server.live.worker_ops import JOBS_AT_ONCE
from treadle_server.store import tables
from treadle_server.testing import Served, serve


async def held_by(opened: Open, concurrency: int = 1, **fields: object) -> Socket:
    socket = await opened()
    fields = {"prefetch": 0} | fields  # what is given ahead would depend on the machine's pace
    await socket.call("open", worker={"name": "w", "concurrency": concurrency}, jobs=[JOB], **fields)
    return socket


async def test_claims_are_pushed_as_far_as_there_is_room(opened: Open):
    """C1: no credits are sent; a run's end makes room."""
    worker, client = await held_by(opened, 2), await opened()
    await submit(client, 4)

    first, second = await worker.claims(2)
    assert (first["status"], first["run_id"], first["payload"]) == ("claimed", 0, {"n": 0})
    assert 30 < first["seconds_left"] <= 60
    assert not worker.pushes
    answers = await worker.call(
        "reports", reports=[{**ref(first), "kind": "started"}, {**ref(first), "kind": "completed", "result": 1}]
    )

    assert [answer["status"] for answer in answers["answers"]] == [200, 200]
    assert [task["payload"] for task in await worker.claims(1)] == [{"n": 2}]
    assert second["payload"] == {"n": 1}


async def test_prefetch_takes_more_than_concurrency(opened: Open):
    worker, client = await held_by(opened, 1, prefetch=2), await opened()

    await submit(client, 5)

    assert len(await worker.claims(3)) == 3


async def test_a_worker_that_is_far_away_is_given_what_it_ends_on_the_way_too(database_url: str, clock: FakeClock):
    """Between two of its reports a worker 150 ms away had nothing to do, and began 65 short tasks a second."""
    async with serve(database_url, clock=clock) as served, connected(served) as client, connected(served) as worker:
        await worker.call("open", worker={"name": "w", "concurrency": 16}, jobs=[JOB])
        await submit(client, 60)
        claims = await worker.claims(16)

        clock.advance(0.2)
        await worker.call("reports", reports=[{**ref(claim), "kind": "started"} for claim in claims])
        clock.advance(0.05)
        await worker.call("reports", reports=[{**ref(claim), "kind": "completed"} for claim in claims])

        assert len(await worker.claims(16 + 19)) == 16 + int(16 / 0.25 * (0.1 + 0.2))


def jobs_named(names: Iterable[str]) -> list[dict[str, Any]]:
    return [{**JOB, "name": name} for name in names]


async def test_a_worker_of_many_jobs_is_open_after_few_commits(served: Served, opened: Open):
    worker, commits = await opened(), served.engine.commit_seconds.copy()

    answer = await worker.call("open", worker={}, jobs=jobs_named(f"many-{n}" for n in range(2 * JOBS_AT_ONCE + 1)))

    assert len(answer["jobs"]) == 2 * JOBS_AT_ONCE + 1
    assert answer["worker"]["job_count"] == len(answer["jobs"])
    done = served.engine.commit_seconds.buckets()[-1][1] - commits.buckets()[-1][1]
    assert done <= 12, "three for the jobs, and those of the worker and of services"


async def test_of_jobs_that_a_worker_may_not_serve_the_first_is_told(served: Served, opened: Open):
    first, other, worker = await opened(), await opened(), await opened()
    schema = {"type": "object", "properties": {"n": {"type": "string"}}}
    await first.call("register", **{**JOB, "name": "strict-1", "schema": schema})
    await other.call("register", **{**JOB, "name": "strict-2", "schema": schema})

    answer = await worker.ask("open", worker={}, jobs=jobs_named(["free", "strict-1", "strict-2", "free-too"]))

    assert answer["problem"]["status"] == 409
    assert "strict-1 is registered with another schema" in answer["problem"]["detail"]
    async with served.engine.store.read() as connection:
        assert not list(await connection.execute(sa.select(tables.workers.c.id))), "nothing is left of the worker"


@task
async def rest() -> None:
    """Nobody submits it."""


async def test_a_worker_is_told_how_many_reports_to_send_at_once_and_does_so(
    served: Served, opened: Open, monkeypatch: pytest.MonkeyPatch
):
    socket = await opened()
    answer = await socket.call("open", worker={}, jobs=[JOB])
    assert answer["reports_at_once"] == {"sqlite": 2, "postgresql": 8}[served.engine.store.dialect]

    found: asyncio.Queue[int] = asyncio.Queue()
    opening = Connector._open

    async def noted(connector: Connector, link: Any) -> None:
        await opening(connector, link)
        found.put_nowait(connector.reports_at_once)

    monkeypatch.setattr(Connector, "_open", noted)
    worker = Worker([rest], url=served.url, token=served.token, drain_grace=0)
    running = asyncio.ensure_future(worker.run_async())
    assert await asyncio.wait_for(found.get(), 10) == answer["reports_at_once"]
    worker.stop()
    await running


async def test_more_payload_than_may_wait_on_a_socket_is_claimed_bit_by_bit(database_url: str, tmp_path: Path):
    """A worker with room for all of it was dropped as too slow, came back, and was given all of it again."""
    async with (
        serve(database_url, data_dir=tmp_path, session_queue_bytes=400_000) as served,
        connected(served) as client,
        connected(served) as worker,
    ):
        await client.call("register", **JOB)
        for n in range(40):
            await client.call("submit", room="lab", tasks=[{"job": NAME, "payload": {"n": n, "x": "x" * 50_000}}])

        await worker.call("open", worker={"concurrency": 100}, links=[NAME], prefetch=0)

        claims = await worker.claims(40)
    assert [claim["payload"]["n"] for claim in claims] == list(range(40))


async def test_a_cancel_a_pause_and_a_loss_are_pushed(served: Served, opened: Open):
    worker, client = await held_by(opened, 3), await opened()
    await submit(client, 3)
    cancelled, paused, removed = await worker.claims(3)
    await worker.call("reports", reports=[{**ref(task), "kind": "started"} for task in (cancelled, paused, removed)])

    await client.call("action", id=cancelled["id"], action="cancel")
    await client.call("action", id=paused["id"], action="pause")

    assert (await worker.pushed("cancel"))["runs"] == [ref(cancelled)]
    assert (await worker.pushed("pause"))["runs"] == [ref(paused)]
    beat = await worker.call("beat", tasks=[ref(cancelled), ref(paused), ref(removed)])
    assert (beat["cancel"], beat["pause"]) == ([ref(cancelled)], [ref(paused)])
    answers = await worker.call(
        "reports", reports=[{**ref(cancelled), "kind": "stopped"}, {**ref(paused), "kind": "paused", "checkpoint": [1]}]
    )
    assert [answer["status"] for answer in answers["answers"]] == [200, 200]
    task = await client.call("get", id=paused["id"])
    assert (task["status"], task["checkpoint"], task["error"]) == ("paused", [1], "interrupted by user")


async def test_a_run_that_its_own_worker_ended_is_not_pushed_back_at_it(opened: Open):
    worker, client = await held_by(opened), await opened()
    await submit(client)
    [task] = await worker.claims(1)

    await worker.call(
        "reports", reports=[{**ref(task), "kind": "started"}, {**ref(task), "kind": "failed", "error": "x"}]
    )
    await worker.call("ping")

    assert not worker.pushes


async def test_what_a_broken_session_had_not_started_goes_back(opened: Open):
    """G8."""
    worker, client = await held_by(opened, 2), await opened()
    await submit(client, 2)
    started, unstarted = await worker.claims(2)
    await worker.call("reports", reports=[{**ref(started), "kind": "started"}])
    await client.call("watch", sub="t", topic="task", task_id=unstarted["id"])

    await worker.connection.close()

    while True:
        row = (await client.pushed("delta", sub="t"))["rows"][0]
        if row["task"]["status"] == "pending":
            break
    assert [(run["status"], run["reason"]) for run in row["runs"]] == [("returned", "returned")]
    assert (await client.call("get", id=started["id"]))["status"] == "running"


async def test_a_worker_that_comes_back_keeps_what_it_holds(opened: Open):
    worker, client = await opened(), await opened()
    worker_id = (await worker.call("open", worker={"concurrency": 2}, jobs=[JOB]))["worker"]["id"]
    await submit(client, 2)
    kept, lost = await worker.claims(2)
    await worker.call("reports", reports=[{**ref(kept), "kind": "started"}])
    await worker.connection.close()

    again = await opened()
    unknown = {"task_id": kept["id"], "run_id": 7}
    ok = await again.call("open", worker={"id": worker_id, "concurrency": 2}, links=[NAME], held=[ref(kept), unknown])

    assert ok["gone"] == [unknown]
    assert [one["task_id"] for one in ok["taken_until"]] == [kept["id"]]
    # What it had not started and does not name went back, and comes again as a new run.
    assert [ref(task) for task in await again.claims(1)] == [{"task_id": lost["id"], "run_id": 1}]


async def test_a_second_session_of_a_worker_ends_the_first(opened: Open):
    first, second = await opened(), await opened()
    worker_id = (await first.call("open", worker={}, jobs=[JOB]))["worker"]["id"]

    await second.call("open", worker={"id": worker_id}, jobs=[JOB])

    assert await first.closed() == 1001
    await submit(await opened())
    assert await second.claims(1)


async def test_a_draining_worker_gets_no_more(opened: Open):
    worker, client = await held_by(opened, 2), await opened()
    assert (await worker.call("beat", draining=True))["state"] == "draining"

    await submit(client)
    other = await held_by(opened)

    assert len(await other.claims(1)) == 1
    assert not worker.pushes


async def asked_to_drain(served: Served, worker_id: str) -> dict[str, Any]:
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        answer = await http.post(f"/v1/workers/{worker_id}/drain")
    assert answer.status_code == 200, answer.text
    return answer.json()  # type: ignore[no-any-return]


async def test_a_worker_that_is_asked_to_drain_is_told_once_and_gets_no_more(opened: Open, served: Served):
    worker, client = await opened(), await opened()
    worker_id = (await worker.call("open", worker={"concurrency": 2}, jobs=[JOB], prefetch=0))["worker"]["id"]

    assert (await asked_to_drain(served, worker_id))["state"] == "draining"
    await worker.pushed("drain")
    await asked_to_drain(served, worker_id)
    await submit(client)

    other = await held_by(opened)
    assert len(await other.claims(1)) == 1
    assert (await worker.call("beat"))["state"] == "draining"
    assert not worker.pushes


async def test_a_worker_that_says_itself_that_it_drains_is_not_asked_to(opened: Open, served: Served):
    worker = await opened()
    worker_id = (await worker.call("open", worker={}, jobs=[JOB]))["worker"]["id"]

    await worker.call("beat", draining=True)
    await asked_to_drain(served, worker_id)

    await worker.call("ping")
    assert not worker.pushes


async def test_a_worker_that_was_away_when_it_was_asked_to_drain_hears_of_it_when_it_is_back(
    opened: Open, served: Served
):
    """It says `draining: false` to take tasks all the same; left out, it is as it was."""
    client = await opened()
    async with connected(served) as first:
        worker_id = (await first.call("open", worker={}, jobs=[JOB]))["worker"]["id"]
    await asked_to_drain(served, worker_id)

    second = await opened()
    assert (await second.call("open", worker={"id": worker_id}, jobs=[JOB], prefetch=0))["worker"][
        "state"
    ] == "draining"
    await submit(client)
    await client.call("ping")
    assert not second.pushes

    third = await opened()
    back = await third.call("open", worker={"id": worker_id}, jobs=[JOB], prefetch=0, draining=False)
    assert back["worker"]["state"] == "online"
    assert len(await third.claims(1)) == 1


async def test_a_worker_that_is_asked_to_drain_while_it_opens_itself_is_told_and_gets_nothing(
    opened: Open, served: Served, monkeypatch: pytest.MonkeyPatch
):
    """It was read before, and between its registration and its slot there are the commits of its jobs."""
    serve_jobs = worker_ops._serve_jobs

    async def asked_meanwhile(session: Any, worker_id: Any, wanted: Any) -> Any:
        await asked_to_drain(served, worker_id)
        return await serve_jobs(session, worker_id, wanted)

    monkeypatch.setattr(worker_ops, "_serve_jobs", asked_meanwhile)
    worker, client = await opened(), await opened()
    await worker.call("open", worker={}, jobs=[JOB], prefetch=0)

    await submit(client)
    await worker.pushed("drain")
    await client.call("ping")
    assert not worker.pushes


async def test_what_is_handed_back_is_claimed_again_without_cost(opened: Open):
    worker, client = await held_by(opened), await opened()
    await submit(client)
    [task] = await worker.claims(1)

    answers = (await worker.call("return", runs=[ref(task), {**ref(task), "run_id": 5}]))["answers"]

    assert [answer["status"] for answer in answers] == [200, 409]
    [again] = await worker.claims(1)
    assert (again["run_id"], again["retry_count"], again["requeue_count"]) == (1, 0, 0)


async def test_a_worker_that_closes_is_removed_and_its_runs_are_lost(served: Served, opened: Open):
    worker, client = await held_by(opened), await opened()
    [task] = await submit(client, wait=True)
    [claim] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"}])

    assert await worker.call("close") == {}

    [lost] = (await client.pushed("result"))["tasks"]
    assert (lost["id"], lost["status"], lost["error"]) == (task["id"], "failed", "Worker disconnected")
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        assert (await http.get("/v1/workers")).json()["total"] == 0
    assert await worker.refused("beat") == "worker-not-found"


async def test_a_job_that_a_worker_may_not_register_refuses_its_open(served: Served, opened: Open):
    """Z3."""
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        token = (await http.post("/v1/tokens", json={"name": "alice"})).json()["token"]
    alice = await opened(token)

    assert await alice.refused("open", jobs=[{**JOB, "room": "@global"}]) == "forbidden"
    assert await alice.refused("open", links=["lab:tasks:none"]) == "job-not-found"
    assert (await alice.call("open", jobs=[JOB]))["jobs"][0]["full_name"] == NAME


async def test_an_open_that_is_refused_leaves_no_worker(served: Served, opened: Open):
    worker = await opened()

    assert await worker.refused("open", jobs=[{**JOB, "category": "nope"}]) == "invalid-category"

    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        assert (await http.get("/v1/workers")).json()["total"] == 0


async def test_a_slot_whose_code_runs_on_gets_nothing_until_it_has_stopped_on_a_new_connection_too_t5(opened: Open):
    """A thread that ignores its timeout: its run has failed, its slot is taken all the same."""
    worker, client = await held_by(opened, 1), await opened()
    await submit(client, 2)
    [stuck] = await worker.claims(1)
    failed = {**ref(stuck), "kind": "failed", "reason": "timeout", "starts": True, "code_runs": True}
    assert (await worker.call("reports", reports=[failed]))["answers"][0]["status"] == 200

    beat = await worker.call("beat", tasks=[ref(stuck)])
    assert (beat["gone"], [one["run_id"] for one in beat["taken_until"]]) == ([], [0])
    again = await opened()
    opening = {"worker": {"id": beat["id"], "concurrency": 1}, "jobs": [JOB], "held": [ref(stuck)], "prefetch": 0}
    assert (await again.call("open", **opening))["worker"]["used"] == 1
    await again.call("ping")
    assert not worker.pushes
    assert not again.pushes
    await again.call("reports", reports=[{**ref(stuck), "kind": "stopped"}])

    assert [task["payload"] for task in await again.claims(1)] == [{"n": 1}]


async def test_a_job_that_is_linked_over_http_to_a_worker_on_the_socket_is_served_there(opened: Open, served: Served):
    """What waits for it already, and what comes; once more linked, nothing is given twice."""
    worker, client = await opened(), await opened()
    opening = await worker.call("open", worker={"concurrency": 3}, jobs=[JOB], prefetch=0)
    await client.call("register", **{**JOB, "name": "other"})
    other = [{"job": "lab:tasks:other", "payload": {"n": n}} for n in range(2)]
    await client.call("submit", room="lab", tasks=other[:1])
    link = {"category": "tasks", "name": "other", "schema": {}, "worker_id": opening["worker"]["id"]}

    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        linked = [await http.put("/v1/rooms/lab/jobs", json=link) for _ in range(2)]
    [waited] = await worker.claims(1)
    await client.call("submit", room="lab", tasks=other[1:])
    [came] = await worker.claims(1)

    assert [answer.status_code for answer in linked] == [200, 200]
    assert [(claim["job_name"], claim["payload"]) for claim in (waited, came)] == [
        ("lab:tasks:other", {"n": 0}),
        ("lab:tasks:other", {"n": 1}),
    ]
    assert not worker.pushes
