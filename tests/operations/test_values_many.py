"""N2: what a request costs everybody else is bounded by the values in it, not by its bytes alone."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import UUID

import httpx
import pytest

from tests.api.rooms import Room, make_room
from tests.live.sockets import connected
from tests.operations.heavy import watched
from treadle import Client, task
from treadle.errors import PayloadTooLarge
from treadle.wire.runs import Report
from treadle.wire.values import MOST_VALUES, has_too_many
from treadle_server import errors
from treadle_server.operations import values
from treadle_server.operations.portions import BREATH_SECONDS, PORTION, each
from treadle_server.operations.task_lists import tasks_of
from treadle_server.testing import Served, serve


def numbers(count: int) -> str:
    return f"[{','.join('0' * count)}]"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(None, data_dir=tmp_path / "data") as served:
        yield served


@pytest.fixture
async def room(served: Served) -> AsyncIterator[Room]:
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers, timeout=30) as client:
        yield await make_room(client, "lab", schema={})


@pytest.mark.parametrize(
    ("text", "is_refused"),
    [
        (lambda: numbers(MOST_VALUES), False),
        (lambda: numbers(MOST_VALUES + 1), True),
        (lambda: json.dumps({f"{n:x}": 0 for n in range(MOST_VALUES // 2)}), False),
        (lambda: json.dumps({f"{n:x}": 0 for n in range(MOST_VALUES // 2 + 1)}), True),
        (lambda: "[" * (MOST_VALUES + 1), True),
        (lambda: '["' + "1,2:[{" * MOST_VALUES + '"]', False),
        (lambda: r'["\"' + "," * MOST_VALUES + r'\\", "\\\"' + "," * MOST_VALUES + '"]', False),
        (lambda: '["\\\\",' + numbers(MOST_VALUES)[1:], True),
        (lambda: "[" + '",",' * MOST_VALUES + "0]", True),
        (lambda: '"' * (4 * MOST_VALUES) + "," * (MOST_VALUES + 1), True),
    ],
    ids=["numbers", "one-more", "names", "names-more", "open", "text", "quotes", "backslash", "texts", "no-json"],
)
def test_values_and_names_are_counted_and_what_stands_in_texts_is_none(
    text: Callable[[], str], is_refused: bool
) -> None:
    assert has_too_many(text().encode()) is is_refused


async def test_too_many_values_are_refused_unread_and_a_text_of_as_many_is_taken(room: Room) -> None:
    text = ",".join("1" * (MOST_VALUES + 1))

    many = await room.client.post(f"/v1/rooms/lab/tasks/{room.job}", content=f'{{"payload": {{"n": [{text}]}}}}')
    one = await room.client.post(f"/v1/rooms/lab/tasks/{room.job}", content=f'{{"payload": {{"n": "{text}"}}}}')

    assert (many.status_code, many.json()["type"]) == (413, "/v1/problems/payload-too-large")
    assert "more than 1,000,000 values and names" in many.json()["detail"]
    assert one.status_code == 202


async def test_a_frame_of_too_many_values_ends_its_session_as_one_that_is_too_large(served: Served) -> None:
    async with connected(served) as socket:
        await socket.connection.send(f'{{"items": [{{"op": "ping", "n": {numbers(MOST_VALUES)}}}]}}')

        assert await socket.closed() == 1009


@task
async def takes(numbers: list[int] | str) -> None: ...


async def test_the_sdk_refuses_too_many_values_and_goes_on(served: Served) -> None:
    async with Client(served.url, served.token) as client:
        with pytest.raises(PayloadTooLarge, match="1000000 values"):
            await client.submit(takes.bind(numbers=[0] * MOST_VALUES))
        taken = await client.submit(takes.bind(numbers="0," * MOST_VALUES))

    assert taken.id


@pytest.mark.parametrize(
    ("name", "count"), [("depends_on", 100_000), ("arguments_from", 200_000), ("tags", 200_000), (None, 200_000)]
)
async def test_of_many_names_of_which_each_is_wrong_one_word_is_said_at_once(
    room: Room, name: str | None, count: int
) -> None:
    names = {f"{n:x}": 0 for n in range(count)}
    content = json.dumps({"payload": {}, **(names if name is None else {name: names})}).encode()

    async with watched() as gap:
        refused = await room.client.post(f"/v1/rooms/lab/tasks/{room.job}", content=content)

    assert refused.status_code == 422
    assert len(refused.json().get("errors", ())) <= 1
    assert gap.seconds < 0.3


async def test_many_long_numbers_are_refused_before_they_are_written(room: Room) -> None:
    long = 10**4000

    def body(count: int) -> str:
        return json.dumps({"payload": {"n": [{"of": [long]}] * count}})

    few = await room.client.post(f"/v1/rooms/lab/tasks/{room.job}", content=body(200))
    many = await room.client.post(f"/v1/rooms/lab/tasks/{room.job}", content=body(300))

    assert few.status_code == 202
    assert (many.status_code, many.json()["type"]) == (413, "/v1/problems/payload-too-large")
    with pytest.raises(errors.PayloadTooLarge, match="1,000,000 digits"):
        values.text_of([long] * 300)


@pytest.mark.parametrize("options", [{}, {"priority": 1}], ids=["plain", "with-options"])
async def test_ten_thousand_tasks_of_a_hundred_values_each_are_taken(room: Room, options: dict[str, Any]) -> None:
    tasks = [{"job": room.job, "payload": {"n": [0] * 80}, **options}] * 10_000
    content = json.dumps({"tasks": tasks}, separators=(",", ":")).encode()

    async with watched():
        done = await room.client.post("/v1/rooms/lab/tasks", content=content)

    assert done.status_code == 202
    assert len(done.json()["tasks"]) == 10_000


async def turns_beside(work: Coroutine[Any, Any, Any]) -> int:
    """Return how many turns somebody had while it was worked."""
    working, turns = asyncio.create_task(work), 0
    while not working.done():
        await asyncio.sleep(0)
        turns += 1
    await working
    return turns


def dawdle(_: int) -> None:
    until = monotonic() + 2 * BREATH_SECONDS
    while monotonic() < until:
        pass


async def test_others_have_their_turns_between_portions() -> None:
    tasks = [{"job": "lab:tasks:add", "priority": 1}] * (4 * PORTION)
    reports = [{"task_id": str(UUID(int=1)), "run_id": 0, "kind": "started"}] * (4 * PORTION)

    assert await turns_beside(each(str, range(10))) <= 2
    assert await turns_beside(each(dawdle, range(3))) >= 3
    assert await turns_beside(tasks_of(tasks)) >= 4
    assert await turns_beside(values.each(Report, reports)) >= 4


async def test_the_place_of_a_wrong_task_among_many_is_that_in_the_request(room: Room) -> None:
    tasks = [{"job": room.job, "payload": {}, "priority": 1} for _ in range(2 * PORTION)]
    tasks[PORTION + 7]["priority"] = "x"

    refused = await room.client.post("/v1/rooms/lab/tasks", json={"tasks": tasks})

    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == ["tasks", str(PORTION + 7), "priority"]
