"""N2: no payload and no schema keeps the server from others: what may take long is checked aside, and ended."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.rooms import problem, until
from tests.live.sockets import connected
from tests.operations.heavy import tree, twice, union, watched
from tests.waiting import SECONDS
from treadle_server.operations import checker_process
from treadle_server.testing import Served, serve


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A server; that nothing is left of it but what it wrote is the test's last word."""
    async with serve(None, data_dir=tmp_path / "data") as served:
        yield served
        checker = process_of(served)
    assert checker is None or checker.returncode is not None


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check ends after a second of its own work, however long that takes on a busy machine."""
    for name in ("ANSWER_SECONDS", "WAIT_SECONDS", "START_SECONDS"):
        monkeypatch.setattr(checker_process, name, SECONDS)


def process_of(served: Served) -> asyncio.subprocess.Process | None:
    return served.app.state.ctx.catalog.checker._process  # type: ignore[no-any-return]


async def register(root: httpx.AsyncClient, name: str, schema: dict[str, Any]) -> str:
    wanted = {"category": "tasks", "name": name, "schema": schema, "retain": True}
    answer = await root.put("/v1/rooms/lab/jobs", json=wanted)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["full_name"])


async def submit(root: httpx.AsyncClient, job: str, payload: dict[str, Any]) -> httpx.Response:
    return await root.post(f"/v1/rooms/lab/tasks/{job}", json={"payload": payload})


CASES = {
    "a union, depth 12": (union(), tree(12), "discriminator"),
    "a union, depth 16": (union(), tree(16), "discriminator"),
    "a union, depth 30": (union(), tree(30), "discriminator"),
    # 4,096 ways can be walked in a quarter of a second, and then what is wrong is named.
    "references, depth 12": (twice(12), {"x": "wrong"}, "payload"),
    "references, depth 16": (twice(16), {"x": "wrong"}, "discriminator"),
    "references, depth 64": (twice(64), {"x": "wrong"}, "discriminator"),
}


@pytest.mark.parametrize("name", CASES)
async def test_a_payload_whose_check_branches_without_end_is_refused_and_holds_nobody_up(
    root: httpx.AsyncClient, name: str
):
    schema, payload, said = CASES[name]
    job = await register(root, "walk", schema)

    async with watched():
        answer = await submit(root, job, payload)

    assert problem(answer) == "invalid-payload"
    assert said in answer.json()["detail"]


async def test_pings_are_answered_while_a_payload_is_checked(served: Served, root: httpx.AsyncClient):
    job = await register(root, "walk", twice(64))
    pings = 0

    async with watched(), httpx.AsyncClient(base_url=served.url) as other:
        checking = asyncio.create_task(submit(root, job, {"x": "wrong"}))
        while not checking.done():
            assert (await other.get("/healthz")).status_code == 200
            pings += 1

    assert (await checking).status_code == 422
    assert pings > 10


async def test_what_is_valid_for_a_schema_that_branches_is_taken(root: httpx.AsyncClient):
    job = await register(root, "walk", union())

    answers = [await submit(root, job, tree(depth, 7)) for depth in (0, 3, 29)]

    assert [answer.status_code for answer in answers] == [202, 202, 202]


async def test_a_small_mistake_is_named_though_the_schema_branches(root: httpx.AsyncClient):
    job = await register(root, "walk", union())

    answer = await submit(root, job, {})

    assert problem(answer) == "invalid-payload"
    assert answer.json()["detail"] == 'payload: "root" is a required property'


async def test_a_check_that_was_ended_leaves_the_next_one_well(root: httpx.AsyncClient):
    job = await register(root, "walk", twice(64))

    ended = await submit(root, job, {"x": "wrong"})
    taken = await submit(root, job, {"x": 1})

    assert (ended.status_code, taken.status_code) == (422, 202)


async def test_a_process_that_somebody_killed_is_replaced(served: Served, root: httpx.AsyncClient):
    job = await register(root, "walk", union())
    process = process_of(served)
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()

    answer = await submit(root, job, tree(2, 7))

    assert answer.status_code == 202


async def test_of_many_tasks_the_one_that_branches_without_end_is_named(root: httpx.AsyncClient):
    plain = await register(root, "plain", {"type": "object"})
    heavy = await register(root, "heavy", twice(64))
    tasks = [
        {"job": plain, "payload": {}},
        {"job": heavy, "payload": {"x": 1}},
        {"job": heavy, "payload": {"x": "wrong"}},
    ]

    async with watched():
        answer = await root.post("/v1/rooms/lab/tasks", json={"tasks": tasks})

    assert problem(answer) == "invalid-payload"
    assert answer.json()["detail"].startswith("tasks.2.payload")
    assert (await root.get("/v1/tasks")).json()["total"] == 0


async def test_over_the_socket_the_others_are_taken_and_what_follows_two_without_end_is_not_tried(
    served: Served, root: httpx.AsyncClient
):
    plain = await register(root, "plain", {"type": "object"})
    heavy = await register(root, "heavy", twice(64))
    wrong = {"job": heavy, "payload": {"x": "wrong"}}
    good = {"job": heavy, "payload": {"x": 1}}

    async with watched(), connected(served, None) as socket:
        done = await socket.call(
            "submit_each", room="lab", tasks=[good, wrong, good, {"job": plain, "payload": {}}, wrong, good]
        )

    kinds = [one["problem"]["status"] if "problem" in one else 202 for one in done["tasks"]]
    assert kinds == [202, 422, 202, 202, 422, 429]


async def test_an_edit_and_a_schedule_are_checked_in_the_same_way(root: httpx.AsyncClient):
    job = await register(root, "walk", twice(64))
    task = (await submit(root, job, {"x": 1})).json()

    async with watched():
        edited = await root.patch(f"/v1/tasks/{task['id']}", json={"payload": {"x": "wrong"}})
        planned = await root.put(
            "/v1/rooms/lab/schedules/often", json={"job": job, "payload": {"x": "wrong"}, "interval": 3600}
        )

    assert (problem(edited), problem(planned)) == ("invalid-payload", "invalid-payload")


BIG = {
    "branches": {"anyOf": [{"type": "object", "properties": {"k": {"const": i}}} for i in range(3_000)]},
    "patterns": {"properties": {f"p{i}": {"pattern": f"(?:a{{100}}){{60}}{i}"} for i in range(1000)}},
}


@pytest.mark.parametrize("name", BIG)
async def test_a_schema_that_takes_long_to_compile_holds_nobody_up(root: httpx.AsyncClient, name: str):
    async with watched():
        answer = await root.put(
            "/v1/rooms/lab/jobs", json={"category": "tasks", "name": "big", "schema": BIG[name], "retain": True}
        )

    assert answer.status_code in {201, 422}


async def test_a_heavy_schema_that_is_none_is_refused_with_the_reason(root: httpx.AsyncClient):
    schema = {**twice(64), "type": "objekt"}

    answer = await root.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "big", "schema": schema})

    assert problem(answer) == "validation-error"
    assert 'type: "objekt"' in answer.json()["detail"]


async def test_a_large_payload_with_errors_everywhere_holds_nobody_up(root: httpx.AsyncClient):
    job = await register(root, "texts", {"properties": {"x": {"items": {"type": "string"}}}})

    async with watched():
        answer = await submit(root, job, {"x": list(range(60_000))})

    assert problem(answer) == "invalid-payload"
    assert len(answer.json().get("errors", [])) in {0, 10}


async def test_what_takes_long_to_read_is_not_taken_for_a_schema_that_branches(root: httpx.AsyncClient):
    job = await register(root, "texts", {"properties": {"x": {"type": "array"}}})
    x = b"[" + b'{"a":[[[[[[1]]]]]]},' * 110_000 + b"1]"

    answer = await root.post(f"/v1/rooms/lab/tasks/{job}", content=b'{"payload":{"x":' + x + b"}}", timeout=60)

    assert answer.status_code == 202, answer.text


async def test_whoever_finds_the_queue_full_is_told_to_come_again(
    root: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
):
    job = await register(root, "walk", twice(64))
    monkeypatch.setattr(checker_process, "MOST_WAITING", 0)

    answer = await submit(root, job, {"x": 1})

    assert problem(answer) == "too-many-requests"
    assert int(answer.headers["Retry-After"]) >= 1


async def test_a_server_that_stops_in_the_midst_of_a_check_leaves_no_process_behind(tmp_path: Path):
    async with (
        serve(None, data_dir=tmp_path / "data") as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as root,
    ):
        job = await register(root, "walk", twice(64))
        process = process_of(served)
        ours = served.app.state.ctx.catalog.checker
        checking = asyncio.create_task(submit(root, job, {"x": "wrong"}))
        await until(lambda: checking.done() or ours._turn.locked())
        await ours.close()
        answer = await checking

    assert answer.status_code == 429
    assert process is not None
    assert process.returncode == -signal.SIGKILL
