"""The topic `logs`: lines of several tasks, pushed one by one as they are committed, and bounded."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.engine.conftest import Shop
from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, Socket, ref, submit
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import LOGGED_TASKS
from treadle.wire.runs import LogLine
from treadle_server.domain.tasks import Task
from treadle_server.engine.engine import Engine
from treadle_server.live import logs_view
from treadle_server.live.logs_view import LogsView
from treadle_server.store.read import logs as read_logs
from treadle_server.store.read import walks
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


class Followed:
    """The lines of a subscription by their names, and the pushes that brought them."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self.rows: dict[str, Any] = {}
        self.pushes: list[dict[str, Any]] = []

    async def watch(self, **meant: Any) -> "Followed":
        await self._socket.call("watch", sub="l", topic="logs", window={"filter": meant})
        self._take(await self._socket.pushed("snapshot", sub="l"))
        return self

    def _take(self, push: dict[str, Any]) -> None:
        self.rows |= {row["id"]: row for row in push["rows"]}
        for gone in push.get("gone", ()):
            del self.rows[gone]
        self.pushes.append(push)

    @property
    def messages(self) -> list[str]:
        return [row["message"] for row in sorted(self.rows.values(), key=lambda row: row["line"])]

    async def until(self, condition: Callable[["Followed"], bool]) -> None:
        while not condition(self):
            self._take(await self._socket.pushed("delta", sub="l"))


async def say(worker: Socket, claim: dict[str, Any], *messages: str) -> None:
    """Log lines, in one report."""
    lines = [{"message": message} for message in messages]
    [answer] = (await worker.call("reports", reports=[{**ref(claim), "kind": "logs", "lines": lines}]))["answers"]
    assert answer["status"] == 200


async def working(opened: Open, count: int) -> tuple[Socket, list[dict[str, Any]]]:
    """Return a worker with so many runs, and their claims."""
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"name": "w", "concurrency": count}, jobs=[JOB])
    await submit(client, count)
    claims = await worker.claims(count)
    await worker.call("reports", reports=[{**ref(claim), "kind": "started"} for claim in claims])
    return worker, claims


async def test_lines_of_several_tasks_come_as_they_are_committed_and_each_is_sent_once(opened: Open):
    worker, (first, second) = await working(opened, 2)
    await say(worker, first, "one", "two")
    lines = await Followed(await opened()).watch(job=NAME)
    await lines.until(lambda told: told.messages == ["one", "two"])

    await say(worker, second, "three")
    await lines.until(lambda told: told.messages == ["one", "two", "three"])
    await say(worker, first, "four")
    await lines.until(lambda told: told.messages == ["one", "two", "three", "four"])

    sent = [row["message"] for push in lines.pushes for row in push["rows"]]
    assert sent == ["one", "two", "three", "four"]
    last = lines.rows[lines.pushes[-1]["rows"][0]["id"]]
    assert {name: last[name] for name in ("task_id", "job_name", "run_id", "level")} == {
        "task_id": first["id"], "job_name": NAME, "run_id": 0, "level": "info",
    }  # fmt: skip


async def test_a_task_that_begins_to_run_is_followed_too_and_one_of_another_filter_is_not(opened: Open):
    worker, [claim] = await working(opened, 1)
    running, pending = await Followed(await opened()).watch(job=NAME), await Followed(await opened()).watch(tag="a=b")
    await say(worker, claim, "one")
    await running.until(lambda told: told.messages == ["one"])
    await worker.call("reports", reports=[{**ref(claim), "kind": "completed"}])

    await submit(await opened(), 1, tags={"a": "b"})
    [tagged] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(tagged), "kind": "started"}])
    await say(worker, tagged, "two")

    await running.until(lambda told: told.messages == ["one", "two"])
    await pending.until(lambda told: told.messages == ["two"])


async def test_who_reads_another_room_is_told_nothing(served: Served, opened: Open):
    worker, [claim] = await working(opened, 1)
    await say(worker, claim, "secret")
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        made = [
            (await http.post("/v1/tokens", json={"name": room, "scopes": [f"queue:read:{room}"]})).json()["token"]
            for room in ("lab", "other")
        ]

    lab, other = [await Followed(await opened(token)).watch() for token in made]

    assert (lab.messages, other.messages) == (["secret"], [])


async def look(engine: Engine, view: LogsView) -> list[str]:
    """Read the view; return the messages that it shows."""
    async with engine.store.read() as connection:
        rows = await view.read(connection)
    return [json.loads(row)["message"] for row in rows.by_key.values()]


async def logged(shop: Shop, *each: list[str]) -> list[Task]:
    """Let a task run for each list of lines, which it logs."""
    worker = await shop.worker(concurrency=len(each))
    await shop.submit(len(each))
    running = await shop.claim(worker, most=len(each))
    for task, messages in zip(running, each, strict=True):
        await shop.report(task, "started")
        await shop.report(task, "logs", lines=[LogLine(message=message) for message in messages])
    return running


async def test_of_more_tasks_those_that_run_are_told_before_those_that_changed_last(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(walks, "LOOKED_THROUGH", 3)
    await logged(shop, *([f"line {n}"] for n in range(LOGGED_TASKS + 1)))
    await shop.submit(3)
    view = LogsView(TaskFilter(job=shop.job))

    found = await look(engine, view)

    # Those that changed last wait, and have said nothing.
    assert found == [f"line {n}" for n in range(1, LOGGED_TASKS + 1)]
    async with engine.store.read() as connection:
        assert (await view.read(connection)).is_partial


async def test_the_newest_lines_are_kept_and_it_is_said_that_older_ones_are_left_out(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs_view, "MOST_LINES", 3)
    await logged(shop, ["a", "b"], ["c", "d"])
    view = LogsView(TaskFilter())

    assert await look(engine, view) == ["b", "c", "d"]
    async with engine.store.read() as connection:
        rows = await view.read(connection)
    assert (rows.total, rows.total_is_capped) == (3, True)


async def test_lines_are_bounded_by_their_bytes_and_the_last_one_is_shown_whatever_its_size(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(logs_view, "MOST_BYTES", 1_000)
    await logged(shop, ["a", "b", "x" * 5_000])

    assert await look(engine, LogsView(TaskFilter())) == ["x" * 5_000]


async def test_a_tasks_lines_are_read_no_further_than_the_bound_of_their_length(
    engine: Engine, shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(read_logs, "MOST_CHARACTERS", 10)
    [task] = await logged(shop, ["a" * 8, "b" * 8, "c" * 8, "d"])

    async with engine.store.read() as connection:
        found = await read_logs.of_task(connection, task.seq)

    assert [line.message[0] for line in found] == ["b", "c", "d"]
