"""The long poll (Z15): `Prefer: wait=N`, woken by the task's end, with nothing held meanwhile."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from tests.api.rooms import until
from tests.promises.rig import Rig, over_http, worker_of
from tests.promises.words import Task, Worker
from treadle_server.api import tasks

pytestmark = over_http


async def running(rig: Rig) -> tuple[Worker, Task]:
    worker = await worker_of(rig)
    await rig.root.submit()
    return worker, await worker.begin()


async def wait(rig: Rig, task: Task, *prefer: str) -> httpx.Response:
    headers = [("Prefer", value) for value in prefer]
    return await rig.root.http.get(f"/v1/tasks/{task['id']}", headers=headers, timeout=90)


def waiters(rig: Rig) -> int:
    return len(rig.served.app.state.ctx.waits._events)


def is_waited(rig: Rig) -> bool:
    """Return whether a request has read that its task is not over, and waits."""
    return any(event._waiters for events in rig.served.app.state.ctx.waits._events.values() for event in events)


@asynccontextmanager
async def waiting(rig: Rig, task: Task, *prefer: str) -> AsyncIterator["asyncio.Task[httpx.Response]"]:
    """Hold a request that waits for the task during the block."""
    request = asyncio.ensure_future(wait(rig, task, *prefer))
    await until(lambda: is_waited(rig) or request.done())
    assert not request.done()
    try:
        yield request
    finally:
        request.cancel()


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled"])
async def test_z15_the_end_of_the_task_answers_at_once(rig: Rig, ending: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("treadle_server.operations.waits.POLL_SECONDS", 60)
    worker, run = await running(rig)
    async with waiting(rig, run, "wait=60") as request:
        began = time.monotonic()
        if ending == "cancelled":
            await rig.root.cancel(run)
        else:
            await (worker.complete(run, 7) if ending == "completed" else worker.fail(run))
        answer = await request

    assert answer.json()["status"] == ending
    assert answer.headers["preference-applied"] == "wait=60"
    # Behind the event stands a poll; only what is far below it shows that the event woke it.
    assert time.monotonic() - began < 30


async def test_z15_a_terminal_task_is_answered_at_once_and_without_the_header(rig: Rig):
    worker, run = await running(rig)
    await worker.complete(run)

    answer = await wait(rig, run, "wait=60")

    assert answer.json()["status"] == "completed"
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize(
    "prefer",
    [[], ["wait=0"], ["wait=-5"], ["wait=soon"], ["wait="], ["wait"], ["return=minimal"], ["wait=1.5"], ["awaits=9"]],
)
async def test_z15_without_a_wait_that_is_a_positive_number_nothing_is_waited_for(rig: Rig, prefer: list[str]):
    _, run = await running(rig)

    answer = await wait(rig, run, *prefer)

    assert (answer.status_code, answer.json()["status"]) == (200, "running")
    assert "preference-applied" not in answer.headers


@pytest.mark.parametrize(
    "prefer",
    [
        ["wait=30"],
        ["Wait=30"],
        ['wait="30"'],
        ["wait = 30"],
        ["respond-async, wait=30"],
        ["wait=30; foo=bar"],
        ["respond-async", "wait=30"],
        ["handling=lenient; x=1, wait=30, return=minimal"],
    ],
)
async def test_z15_the_header_is_read_in_every_form(rig: Rig, prefer: list[str]):
    """RFC 7240: several preferences in a header, several headers, parameters, quoted values, any case."""
    worker, run = await running(rig)

    async with waiting(rig, run, *prefer) as request:
        await worker.complete(run)
        answer = await request

    assert (answer.json()["status"], answer.headers["preference-applied"]) == ("completed", "wait=30")


async def test_z15_the_wait_is_capped(rig: Rig):
    worker, run = await running(rig)

    async with waiting(rig, run, "wait=100000") as request:
        await worker.complete(run)
        answer = await request

    assert answer.headers["preference-applied"] == "wait=60"


async def test_z15_a_wait_that_ends_in_vain_answers_with_the_task_as_it_is(rig: Rig):
    _, run = await running(rig)

    answer = await wait(rig, run, "wait=1")

    assert (answer.status_code, answer.json()["status"]) == (200, "running")
    assert answer.headers["preference-applied"] == "wait=1"
    assert waiters(rig) == 0


async def test_z15_a_task_that_is_none_is_not_waited_for(rig: Rig):
    answer = await wait(rig, {"id": "00000000-0000-7000-8000-000000000000"}, "wait=60")

    assert answer.status_code == 404


async def test_z15_no_connection_is_held_while_a_hundred_wait(rig: Rig):
    worker, run = await running(rig)
    limits = httpx.Limits(max_connections=100)
    async with httpx.AsyncClient(
        base_url=rig.served.url, headers=rig.served.headers, timeout=60, limits=limits
    ) as client:
        path, header = f"/v1/tasks/{run['id']}", {"Prefer": "wait=50"}
        requests = [asyncio.ensure_future(client.get(path, headers=header)) for _ in range(100)]
        await until(lambda: len(rig.served.app.state.ctx.waits._events.get(run["id"], ())) == 100)
        assert (await rig.root.get(run))["status"] == "running"

        # The services, and who just asked, have some for a moment; each of the hundred would have one for its wait.
        await until(lambda: rig.engine.store.connections_checked_out() == 0)  # type: ignore[attr-defined]
        assert len(rig.served.app.state.ctx.waits._events[run["id"]]) == 100
        await worker.complete(run)
        answers = await asyncio.gather(*requests)

    assert {answer.json()["status"] for answer in answers} == {"completed"}


async def test_z15_a_client_that_goes_frees_everything(rig: Rig):
    _, run = await running(rig)
    async with waiting(rig, run, "wait=60"):
        assert waiters(rig) == 1

    await until(lambda: waiters(rig) == 0 and rig.engine.store.connections_checked_out() == 0)  # type: ignore[attr-defined]


async def test_z15_a_pause_or_a_retry_is_no_end(rig: Rig):
    """The states that are not terminal wake nobody for good."""
    worker = await worker_of(rig)
    await rig.root.submit(max_retries=1, retry_base=0)
    async with waiting(rig, await worker.begin(), "wait=60") as request:
        [task] = (await rig.root.http.get("/v1/tasks")).json()["items"]
        await worker.fail(task)
        assert (await rig.root.get(task))["status"] == "pending"
        assert waiters(rig) == 1
        again = await worker.begin()
        await worker.complete(again, 2)
        answer = await request

    assert answer.json()["result"] == 2


async def test_z15_a_task_that_is_rerun_before_its_end_is_answered_is_waited_for_again(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker, run = await running(rig)
    shown_task, reruns = tasks.shown_task, [run]

    async def shown_late(*args: Any) -> Any:
        if reruns:
            await rig.root.http.post(f"/v1/tasks/{reruns.pop()['id']}/rerun")
        return await shown_task(*args)

    monkeypatch.setattr(tasks, "shown_task", shown_late)
    async with waiting(rig, run, "wait=60") as request:
        await worker.complete(run, 7)
        await until(lambda: not reruns and is_waited(rig))
        await rig.root.cancel(run)
        answer = await request

    assert answer.json()["status"] == "cancelled"
