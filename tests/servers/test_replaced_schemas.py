"""What a job's present schema takes is not refused by a server that has not heard of it yet (G9, G11)."""

from typing import Any

import pytest

from tests.servers.conftest import Site
from treadle_server.operations.catalog import Catalog

pytestmark = [pytest.mark.anyio, pytest.mark.postgres]

TASK = "/v1/rooms/lab/tasks/lab:tasks:add"
SCHEDULE = "/v1/rooms/lab/schedules/hourly"


@pytest.fixture
def deaf(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another server changes of a job is told to nobody here."""
    monkeypatch.setattr(Catalog, "on_commit", lambda *_: None)


@pytest.fixture
async def second(deaf: None, sites: tuple[Site, Site]) -> Site:
    """A server that has a job in mind whose schema another one has replaced."""
    first, second = sites
    await first.ask("PUT", "/v1/rooms/lab/jobs", json=_job("integer"))
    await second.ask("POST", TASK, json={"payload": {"n": 1}})
    await first.ask("PUT", "/v1/rooms/lab/jobs", json={**_job("string"), "replace": True})
    return second


def _job(kind: str) -> dict[str, Any]:
    schema = {"type": "object", "properties": {kind: {}, "n": {"type": kind}}, "additionalProperties": False}
    return {"category": "tasks", "name": "add", "schema": schema}


def _of_many(*payloads: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"job": "lab:tasks:add", "payload": payload} for payload in payloads]


async def test_a_task_of_a_schema_that_was_replaced_elsewhere_is_taken_and_one_of_the_old_refused(second: Site) -> None:
    await second.ask("POST", TASK, json={"payload": {"n": "x"}})

    refused = await second.http.post(TASK, json={"payload": {"n": 1}})
    assert (refused.status_code, refused.json()["type"]) == (422, "/v1/problems/invalid-payload")


async def test_many_tasks_are_held_against_the_replaced_schema(second: Site) -> None:
    taken = await second.ask("POST", "/v1/rooms/lab/tasks", json={"tasks": _of_many({"n": "x"}, {"n": "y"})})

    assert [task["payload"] for task in taken["tasks"]] == [{"n": "x"}, {"n": "y"}]


async def test_each_of_many_tasks_on_the_socket_is_held_against_the_replaced_schema(second: Site) -> None:
    socket = await second.socket()

    answer = await socket.call("submit_each", room="lab", tasks=_of_many({"n": "x"}, {"n": 2}, {"n": "y"}))

    assert [one.get("problem", {}).get("status", "taken") for one in answer["tasks"]] == ["taken", 422, "taken"]


async def test_an_argument_that_the_replaced_schema_admits_may_come_from_another_task(second: Site) -> None:
    [first] = (await second.ask("GET", "/v1/tasks"))["items"]
    waiting = {"payload": {}, "depends_on": {"it": first["id"]}, "arguments_from": {"string": "it"}}

    assert (await second.ask("POST", TASK, json=waiting))["status"] == "blocked"


async def test_a_schedule_is_held_against_the_replaced_schema(second: Site) -> None:
    schedule = {"job": "lab:tasks:add", "interval": 3600, "payload": {"n": "x"}}

    assert (await second.ask("PUT", SCHEDULE, json=schedule))["payload"] == {"n": "x"}
    refused = await second.http.put(SCHEDULE, json={**schedule, "payload": {"n": 1}})
    assert refused.status_code == 422
