"""Schedules over HTTP and on the socket: what is shown, who may do what, and what is refused (E10, G9)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.api.rooms import NewUser, Room, make_room, problem
from tests.clients import client_at
from tests.live.sockets import connected
from tests.live.test_feeds import KEYS, Mirror
from treadle.wire.schedules import ScheduleContent
from treadle.wire.tasks import TaskSubmit
from treadle_server.testing import Served, serve

pytestmark = pytest.mark.anyio

PATH = "/v1/rooms/lab/schedules/nightly"


ON_BOTH = pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
"""Marks what is worth a server on each database."""


@pytest.fixture
def kind() -> str:
    return "sqlite"


@pytest.fixture
def url(kind: str, request: pytest.FixtureRequest) -> str | None:
    return request.getfixturevalue("postgres_database") if kind == "postgres" else None


@pytest.fixture
async def served(url: str | None, tmp_path: Path) -> AsyncIterator[Served]:
    async with serve(url, data_dir=tmp_path / "data") as served:
        yield served
    assert served.engine.store.connections_checked_out() == 0  # type: ignore[attr-defined]


def body(lab: Room, **more: Any) -> dict[str, Any]:
    timing = {} if "cron" in more else {"interval": 3600}
    return {"job": lab.job, "payload": {"n": 1}, **timing, **more}


async def put(lab: Room, status: int = 201, **more: Any) -> dict[str, Any]:
    answer = await lab.client.put(PATH, json=body(lab, **more))
    assert answer.status_code == status, answer.text
    return answer.json()  # type: ignore[no-any-return]


@ON_BOTH
async def test_a_schedule_is_made_shown_changed_and_deleted_e10(lab: Room) -> None:
    made = await put(lab, cron="30 9 * * MON-FRI", zone="Europe/Berlin", priority=3, target="cam", tags={"a": "b"})
    assert (made["name"], made["room_id"], made["job_name"], made["owner"]) == ("nightly", "lab", lab.job, "admin")
    assert (made["cron"], made["zone"], made["interval"]) == ("30 9 * * MON-FRI", "Europe/Berlin", None)
    assert made["options"] == {"priority": 3, "target": "cam", "tags": {"a": "b"}}
    assert (made["payload"], made["missed"], made["last_task_id"], made["last_status"]) == (
        {"n": 1},
        "late",
        None,
        None,
    )
    assert made["next_at"] > made["created_at"]
    shown = (await lab.client.get(PATH)).json()
    assert shown == made

    patch = {"payload": {"n": 2}, "options": {"priority": None, "weight": 2}, "missed": "skip"}
    changed = (await lab.client.patch(PATH, json=patch)).json()
    assert changed["options"] == {"target": "cam", "tags": {"a": "b"}, "weight": 2}
    assert (changed["payload"], changed["missed"], changed["version"]) == ({"n": 2}, "skip", 2)
    assert (changed["next_at"], changed["cron"]) == (made["next_at"], made["cron"])
    timed = (await lab.client.patch(PATH, json={"interval": 60})).json()
    assert (timed["cron"], timed["zone"], timed["interval"], timed["version"]) == (None, None, 60, 3)

    assert (await lab.client.delete(PATH)).status_code == 204
    for answer in (await lab.client.get(PATH), await lab.client.delete(PATH), await lab.client.post(f"{PATH}/run")):
        assert (answer.status_code, problem(answer)) == (404, "schedule-not-found")
    assert (await put(lab))["version"] == 5


async def test_a_paused_one_has_no_next_tick_and_run_now_works_e10(lab: Room) -> None:
    await put(lab, paused=True)
    assert (await lab.client.get(PATH)).json()["next_at"] is None

    ran = await lab.client.post(f"{PATH}/run")
    task = ran.json()
    assert (ran.status_code, ran.headers["location"], task["status"]) == (202, f"/v1/tasks/{task['id']}", "pending")
    assert task["tags"] == {"schedule": "nightly"}
    again = await lab.client.post(f"{PATH}/run")
    assert (again.status_code, problem(again)) == (409, "task-conflict")

    shown = (await lab.client.patch(PATH, json={"paused": False})).json()
    assert (shown["paused"], shown["last_task_id"], shown["last_status"]) == (False, task["id"], "pending")
    assert shown["next_at"] is not None


async def test_the_same_put_again_changes_nothing_e10(lab: Room) -> None:
    made = await put(lab)

    assert await put(lab, status=200) == made
    assert await put(lab, status=200, interval=3600.0, jitter=0) == made


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"cron": "61 * * * *"}, "validation-error", "cron: '61' of '61 * * * *' is not a valid minute: 0-59"),
    ({"cron": "* * *"}, "validation-error", "has 3 fields"),
    ({"cron": "0 0 * * *", "zone": "Mars/Base"}, "validation-error", "zone: 'Mars/Base' is not a time zone"),
    ({"zone": "UTC"}, "validation-error", "only allowed with cron"),
    ({"cron": "0 0 * * *", "interval": 60}, "validation-error", "give either cron or interval"),
    ({"interval": None}, "validation-error", "give either cron or interval"),
    ({"interval": 0.5}, "validation-error", "interval"),
    ({"interval": "60"}, "validation-error", "interval"),
    ({"jitter": -1}, "validation-error", "jitter"),
    ({"missed": "never"}, "validation-error", "missed"),
    ({"payload": {"n": "x"}}, "invalid-payload", "payload.n"),
    ({"delay": 5}, "validation-error", "delay"),
    ({"job": "lab:tasks:none"}, "job-not-found", "lab:tasks:none"),
    ({"job": "den:tasks:add"}, "job-not-found", "den:tasks:add"),
]


async def test_a_bad_schedule_is_refused_and_says_what_to_mend_g9_e10(lab: Room) -> None:
    for more, name, said in BAD:
        answer = await lab.client.put(
            PATH, json={**body(lab), **({"interval": None} if "cron" in more else {}), **more}
        )

        assert problem(answer) == name, more
        assert said in answer.text

    assert (await lab.client.get(PATH)).status_code == 404


BAD_CHANGES: list[tuple[dict[str, Any], str]] = [
    ({}, "give something to change"),
    ({"cron": "x x x x x"}, "is not a valid minute"),
    ({"cron": "0 0 * * *", "interval": 5}, "not both"),
    ({"missed": None}, "may not be null"),
    ({"options": {"colour": "red"}}, "unknown option colour"),
    ({"options": {"priority": "high"}}, "priority"),
    ({"payload": {"n": "x"}}, "payload.n"),
    ({"zone": "UTC"}, "only allowed with cron"),
    ({"paused": False, "if_version": 7}, "version 1, not 7"),
    ({"payload": {"n": 3}, "if_version": 7}, "version 1, not 7"),
]


async def test_a_bad_change_is_refused_and_changes_nothing_g9(lab: Room) -> None:
    made = await put(lab)

    for patch, said in BAD_CHANGES:
        answer = await lab.client.patch(PATH, json=patch)

        assert answer.status_code in {409, 422}, patch
        assert said in answer.text

    assert (await lab.client.get(PATH)).json() == made


async def test_a_name_that_can_not_be_is_refused_g9(lab: Room) -> None:
    for name in ("a\nb", "x" * 256, "\x7f"):
        answer = await lab.client.put(f"/v1/rooms/lab/schedules/{quote(name)}", json=body(lab))

        assert (answer.status_code, answer.json()["type"]) == (422, "/v1/problems/validation-error")


async def test_a_room_sees_its_own_and_the_shared_ones_and_others_may_not_steer_it_z3_g9(
    lab: Room, user: NewUser
) -> None:
    await put(lab)
    shared = await make_room(lab.client, "@global", retain=True)
    await lab.client.put("/v1/rooms/@global/schedules/all", json=body(shared))
    den = await make_room(lab.client, "den")
    await lab.client.put("/v1/rooms/den/schedules/den", json=body(den))
    ann = await user("ann")

    found = (await ann.get("/v1/rooms/lab/schedules")).json()
    assert [item["name"] for item in found["items"]] == ["all", "nightly"]
    assert (found["total"], found["limit"], found["offset"]) == (2, 50, 0)
    page = (await ann.get("/v1/rooms/lab/schedules", params={"limit": 1, "offset": 1})).json()
    assert [item["name"] for item in page["items"]] == ["nightly"]
    assert problem(await ann.get("/v1/rooms/lab/schedules", params={"nmae": "x"})) == "validation-error"
    assert problem(await ann.get("/v1/rooms/a:b/schedules")) == "invalid-room-id"

    for request in (
        ann.put(PATH, json=body(lab, priority=9)),
        ann.patch(PATH, json={"paused": True}),
        ann.delete(PATH),
        ann.post(f"{PATH}/run"),
    ):
        answer = await request
        assert (answer.status_code, problem(answer)) == (403, "forbidden")
    assert (await ann.put("/v1/rooms/lab/schedules/own", json=body(lab))).status_code == 201


@ON_BOTH
async def test_an_observer_sees_schedules_and_their_tasks_as_they_go_e10(
    lab: Room, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KEYS, "schedules", "id")
    async with connected(served) as socket:
        await socket.call("every", brief=True)
        mirror = await Mirror(socket, "s").watch("schedules")
        elsewhere = await Mirror(socket, "e").watch("schedules", room="den")
        made = await put(lab)
        await mirror.until(lambda m: made["id"] in m.rows)
        assert mirror.rows[made["id"]] == made

        ran = await socket.call("schedule", room="lab", name="nightly", action="run")
        await mirror.until(lambda m: m.rows[made["id"]]["last_status"] == "pending")
        assert mirror.rows[made["id"]]["last_task_id"] == ran["last_task_id"]
        await lab.client.post(f"/v1/tasks/{ran['last_task_id']}/cancel")
        await mirror.until(lambda m: m.rows[made["id"]]["last_status"] == "cancelled")
        paused = await socket.call("schedule", room="lab", name="nightly", action="pause")
        await mirror.until(lambda m: m.rows[made["id"]]["paused"])
        assert paused["next_at"] is None
        assert await socket.call("schedule", room="lab", name="nightly", action="delete") == {}
        await mirror.until(lambda m: not m.rows)

        assert elsewhere.rows == {}
        assert await socket.refused("schedule", room="lab", name="nightly", action="run") == "schedule-not-found"
        assert await socket.refused("schedule", room="lab", name="nightly", action="stop") == "validation-error"
        told: list[dict[str, Any]] = []
        while not told or not told[-1].get("deleted"):
            told += [e for e in (await socket.pushed("events"))["events"] if e["type"] == "schedule.updated"]
        assert [(e["schedule"]["name"], e["schedule"]["paused"], e["deleted"]) for e in told] == [
            ("nightly", False, False), ("nightly", True, False), ("nightly", True, True),
        ]  # fmt: skip
    recent = (await lab.client.get("/v1/events", params={"room": "lab"})).json()["items"]
    assert [e["seq"] for e in recent] == sorted({e["seq"] for e in recent})


async def test_a_whole_event_shows_the_schedule_without_brief(lab: Room, served: Served) -> None:
    async with connected(served) as socket:
        await socket.call("every")
        made = await put(lab)
        found = (await socket.pushed("events"))["events"]

        event = next(e for e in found if e["type"] == "schedule.updated")
        assert event["schedule"] == {name: made[name] for name in event["schedule"]}
        assert event["schedule"]["payload"] == {"n": 1}


async def test_a_schedule_ticks_by_itself_on_a_real_clock_e10(lab: Room) -> None:
    await put(lab, interval=1)
    async with asyncio.timeout(20):
        seen: set[str] = set()
        while len(seen) < 2:
            claim = (await lab.claim(wait=5))["task"]
            if claim is not None:
                seen.add(claim["id"])
                run = f"/v1/tasks/{claim['id']}/runs/0"
                assert (await lab.client.post(f"{run}/started")).status_code == 200
                assert (await lab.client.post(f"{run}/completed")).status_code == 200


ALL_OPTIONS: dict[str, Any] = {
    "priority": 1, "max_retries": 2, "max_requeues": 3, "retry_base": 0.5, "retry_multiplier": 3.0,
    "retry_randomization": 0.25, "timeout": 9.0, "lease_seconds": 20.0, "heartbeat_increment": 5.0,
    "start_timeout": 7.0, "on_failure": "release", "weight": 3, "budget": 12.5, "pool": "gpu", "target": "robot",
    "tags": {"order": "A-17"}, "scopes": ["queue:read:lab"], "unique_key": "k", "deadline": 60.0,
    "limits": [{"name": "api", "key": "acme", "weight": 1}], "flow_name": "nightly report",
}  # fmt: skip


def test_a_schedule_says_every_field_of_a_submit_but_its_id_its_trace_and_when_it_is_due() -> None:
    fields = TaskSubmit.model_fields.keys() - {"id", "delay", "scheduled_at", "traceparent", "tracestate", "baggage"}
    fields -= {"depends_on", "arguments_from", "flow_id", "on_dependency_failure"}
    assert ALL_OPTIONS.keys() == fields - {"payload"}
    assert fields <= ScheduleContent.model_fields.keys()


async def test_every_option_is_put_shown_changed_taken_away_and_given_to_the_task(lab: Room) -> None:
    await lab.client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
    made = await put(lab, **ALL_OPTIONS)
    task = (await lab.client.post(f"{PATH}/run")).json()
    await lab.client.post(f"/v1/tasks/{task['id']}/cancel")
    patch = {"options": {"unique_key": None, "deadline": 90, "scopes": ["queue:read:else"]}}
    changed = (await lab.client.patch(PATH, json=patch)).json()
    next_task = (await lab.client.post(f"{PATH}/run")).json()

    assert made["options"] == ALL_OPTIONS
    expected = ALL_OPTIONS | {"tags": {"schedule": "nightly", "order": "A-17"}}
    kept = expected.keys() - {"deadline", "flow_name"}
    assert {name: task[name] for name in kept} == {name: expected[name] for name in kept}
    assert task["deadline"] is not None
    assert changed["options"] == {
        **{name: value for name, value in ALL_OPTIONS.items() if name != "unique_key"},
        "deadline": 90.0,
        "scopes": ["queue:read:else"],
    }
    assert (next_task["unique_key"], next_task["scopes"]) == (None, ["queue:read:else"])


@ON_BOTH
async def test_each_task_of_a_schedule_begins_a_flow_and_adds_to_it_while_it_runs_f2_e10(
    served: Served, lab: Room
) -> None:
    await put(lab, flow_name="etl", scopes=[f"queue:create-task:lab/{lab.job}"])

    flows = []
    for _ in range(2):
        begun = (await lab.client.post(f"{PATH}/run")).json()
        claim = (await lab.claim())["task"]
        assert (claim["id"], claim["flow_id"]) == (begun["id"], begun["flow_id"])
        async with client_at(served.url, {"Authorization": f"Bearer {claim['credentials']}"}) as code:
            more = {"payload": {"n": 2}, "flow_id": begun["flow_id"], "depends_on": {"first": begun["id"]}}
            added = await code.post(f"/v1/rooms/lab/tasks/{lab.job}", json=more)
        assert added.status_code == 202, added.text
        flow = (await lab.client.get(f"/v1/flows/{begun['flow_id']}")).json()
        assert (flow["name"], flow["room_id"], flow["submitter"], flow["total"]) == ("etl", "lab", "admin", 2)
        assert (await lab.client.post(f"/v1/flows/{begun['flow_id']}/cancel")).status_code == 200
        flows.append(begun["flow_id"])
    assert flows[0] != flows[1]


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline": 0},
        {"flow_name": ""},
        {"depends_on": {"a": "b"}},
        {"deadline": 30, "jitter": 30},
        {"deadline": "2999-01-01T00:00:00Z"},
        {"scopes": ["two words"]},
        {"unique_key": ""},
        {"delay": 5},
        {"retry_multiplier": 0.5},
    ],
)
async def test_an_option_that_is_none_is_refused_as_at_submit(lab: Room, wrong: dict[str, Any]) -> None:
    refused = await lab.client.put(PATH, json=body(lab, **wrong))
    assert (refused.status_code, problem(refused)) == (422, "validation-error")


async def test_a_run_by_hand_whose_unique_key_is_held_is_a_conflict(lab: Room) -> None:
    await put(lab, unique_key="k")
    holder = await lab.submit(1, unique_key="k")

    refused = await lab.client.post(f"{PATH}/run")

    assert (refused.status_code, problem(refused)) == (409, "task-conflict")
    assert holder["id"] in refused.json()["detail"]
