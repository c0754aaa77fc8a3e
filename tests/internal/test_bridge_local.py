"""Functions in the server's own process, on a broker in memory: like those of any worker."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.internal import jobs
from tests.internal.site import Site
from tests.internal.site import site as served
from treadle import Client, Context, Flow, Options, task
from treadle.internal import InternalRegistry
from treadle_server.operations import carrying
from treadle_server.store.transaction import peers


async def test_a_function_runs_in_the_servers_process_and_its_result_is_kept_z12(local):
    site: Site = await local(jobs.add)

    found = await site.over(await site.submit(payload={"a": 1, "b": 41}))

    assert (found["status"], found["result"]) == ("completed", 42)
    assert found["started_at"] >= found["claimed_at"]


async def test_the_list_of_servers_is_not_read_because_only_a_broker_needs_it(local, monkeypatch: pytest.MonkeyPatch):
    asked = []
    monkeypatch.setattr(peers, "unseen", lambda *given: asked.append(given))
    site: Site = await local(jobs.add)

    found = await site.over(await site.submit(payload={"a": 1, "b": 41}))

    assert found["status"] == "completed"
    assert not asked


async def test_the_sdk_submits_it_and_awaits_its_result(local):
    site: Site = await local(jobs.add)

    async with Client(site.served.url, site.served.token) as client:
        handles = await client.submit_many([jobs.add.bind(n) for n in range(20)])
        results = [await handle.result(timeout=20) for handle in handles]

    assert results == list(range(1, 21))


async def test_progress_logs_and_checkpoints_are_kept_and_a_resume_goes_on_from_the_last(local):
    site: Site = await local(jobs.counts)
    task = await site.submit("counts", payload={})
    await site.until(task, lambda found: (found["checkpoint"] or 0) > 2 and found["progress"])

    await site.act(task, "pause")
    paused = await site.until(task, lambda found: found["status"] == "paused")
    lines = (await site.http.get(f"/v1/tasks/{task['id']}/logs")).json()["items"]
    await site.act(task, "resume")
    resumed = await site.until(task, lambda found: (found["checkpoint"] or 0) > paused["checkpoint"])

    assert paused["error"] == "interrupted by user"
    assert [line["message"] for line in lines[:2]] == ["at 0", "at 1"]
    assert (resumed["status"], resumed["run_id"]) == ("running", 1)
    await site.act(task, "cancel")


async def test_results_that_a_claim_has_no_room_for_are_read_without_a_url_of_the_server(
    local, monkeypatch: pytest.MonkeyPatch
):
    """TREADLE_URL is not where this server is: its functions speak to it in its process."""
    monkeypatch.setattr(carrying, "MOST_BYTES", 0)
    site: Site = await local(jobs.add)

    async with Client(site.served.url, site.served.token):
        flow = Flow()
        last = flow.add(jobs.add, a=flow.add(jobs.add, a=1), b=40)
        await flow.submit()
        assert await flow.result(last, timeout=60) == 42


async def test_a_cancel_stops_the_code_and_frees_its_place(local):
    ends = asyncio.Event()

    @task(room="@internal")
    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ends.set()

    site: Site = await local(waits, concurrency=1)
    first = await site.submit("waits", payload={})
    await site.until(first, lambda found: found["status"] == "running")

    await site.act(first, "cancel")

    async with asyncio.timeout(20):
        await ends.wait()
    second = await site.submit("waits", payload={})
    await site.until(second, lambda found: found["status"] == "running")
    assert (await site.get(first))["status"] == "cancelled"


async def test_a_failure_is_tried_again_and_each_run_keeps_its_traceback(local):
    site: Site = await local(jobs.fails_before)

    found = await site.over(await site.submit("fails_before", payload={"run": 2}))

    assert (found["status"], found["result"], found["retry_count"]) == ("completed", "run 2", 2)
    runs = await site.runs(found)
    assert [run["status"] for run in runs] == ["failed", "failed", "completed"]
    assert "ValueError: run 0 is too early" in runs[0]["traceback"]


async def test_what_its_code_calls_intermittent_runs_again(local):
    site: Site = await local(jobs.stumbles)

    found = await site.over(await site.submit("stumbles", payload={}))

    assert (found["status"], found["result"], found["requeue_count"]) == ("completed", 1, 1)


async def test_a_timeout_kills_code_that_blocks_in_a_process(local):
    site: Site = await local(jobs.never_ends)

    found = await site.over(await site.submit("never_ends", payload={}))

    assert (found["status"], found["reason"]) == ("failed", "timeout")


async def test_what_spends_more_than_its_budget_is_stopped(local):
    site: Site = await local(jobs.spends)

    found = await site.over(await site.submit("spends", payload={"amount": 3}))

    assert (found["status"], found["reason"], found["usage"]) == ("failed", "budget-exceeded", 3.0)


async def test_a_file_that_it_uploads_is_there_c10(local):
    @task(room="@internal")
    async def draws(ctx: Context) -> None:
        await ctx.upload(b"<svg/>", name="picture.svg")

    site: Site = await local(draws)

    found = await site.over(await site.submit("draws", payload={}))
    answer = await site.http.get(f"/v1/tasks/{found['id']}/artifacts/picture.svg", follow_redirects=True)

    assert (found["status"], answer.status_code, answer.content) == ("completed", 200, b"<svg/>"), found


async def test_tasks_of_a_target_run_one_after_another_g5(local):
    running: list[int] = []
    most: list[int] = []

    @task(room="@internal")
    async def alone(n: int) -> None:
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0.02)
        running.remove(n)

    site: Site = await local(alone)
    tasks = [await site.submit("alone", payload={"n": n}, target="lathe") for n in range(4)]

    for one in tasks:
        assert (await site.over(one))["status"] == "completed"
    assert most == [1, 1, 1, 1]


async def test_a_payload_that_the_function_cannot_take_is_refused_at_submit(local):
    site: Site = await local(jobs.add)

    answer = await site.post(payload={"a": "one"})

    assert (answer.status_code, answer.json()["type"]) == (422, "/v1/problems/invalid-payload")


async def test_the_lifespan_makes_what_functions_share_and_ends_after_them(local, tmp_path: Path):
    said: list[str] = []

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[str]:
        said.append("open")
        yield "shared"
        said.append("closed")

    @task(room="@internal")
    async def tells(ctx: Context) -> str:
        said.append(ctx.resources)
        return "told"

    site: Site = await local(tells, lifespan=lifespan)
    await site.over(await site.submit("tells", payload={}))

    assert said == ["open", "shared"]


async def test_a_server_that_is_stopped_hands_back_what_runs_and_the_next_one_runs_it_e8(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    is_second = False

    @task(room="@internal")
    async def patient(ctx: Context) -> str:
        if not is_second:
            await ctx.save("half")
            await asyncio.Event().wait()
        return f"run {ctx.run_id} from {ctx.checkpoint}"

    registry = InternalRegistry([patient], drain_grace=0)
    url = f"sqlite:///{tmp_path / 'treadle.db'}"
    with caplog.at_level(logging.ERROR):
        async with served(url, registry, data_dir=tmp_path / "data") as site:
            task_ = await site.submit("patient", payload={})
            await site.until(task_, lambda found: found["checkpoint"] == "half")

        is_second = True
        async with served(url, registry, data_dir=tmp_path / "data") as site:
            found = await site.over(task_)
            workers = (await site.http.get("/v1/workers")).json()["items"]

    assert (found["status"], found["result"]) == ("completed", "run 1 from half")
    assert [worker["name"] for worker in workers] == ["executors"]
    assert [record.message for record in caplog.records] == []


async def test_options_of_a_call_hold(local):
    site: Site = await local(jobs.fails_before)

    async with Client(site.served.url, site.served.token):
        handle = await jobs.fails_before.submit(2, options=Options(max_retries=0))
        found = await site.over({"id": handle.id})

    assert (found["status"], found["retry_count"]) == ("failed", 0)
