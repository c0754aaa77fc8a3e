"""A client on the socket: submit, await, look, steer."""

from uuid import uuid4

import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, ref, submit
from treadle_server.services.base import Service

LATEST = "2999-01-01T00:00:00Z"


async def test_results_are_pushed_to_those_who_wait(opened: Open):
    worker, client = await opened(), await opened()
    await worker.call("open", worker={"concurrency": 5}, jobs=[JOB])
    submitted = await submit(client, 3, wait=True)
    claims = await worker.claims(3)

    await worker.call(
        "reports",
        reports=[
            {**ref(c), "kind": kind, **({"result": c["payload"]["n"]} if kind == "completed" else {})}
            for c in claims
            for kind in ("started", "completed")
        ],
    )

    results = {}
    while len(results) < 3:
        results |= {task["id"]: task["result"] for task in (await client.pushed("result"))["tasks"]}
    assert results == {task["id"]: n for n, task in enumerate(submitted)}


async def test_of_tasks_that_are_put_in_each_by_itself_one_is_there_though_its_schema_was_replaced_g6(opened: Open):
    client = await opened()
    await client.call("register", **JOB)
    first, bad = ({"job": NAME, "id": str(uuid4()), "payload": {}} for _ in range(2))
    await client.call("submit_each", room="lab", tasks=[first])
    await client.call("register", **{**JOB, "schema": {"required": ["m"]}, "replace": True})

    taken = (await client.call("submit_each", room="lab", tasks=[bad, first, {**bad, "payload": {"m": 1}}]))["tasks"]

    assert [one.get("id") for one in taken] == [None, first["id"], bad["id"]]
    assert taken[0]["problem"]["type"] == "/v1/problems/invalid-payload"


async def test_a_job_of_a_similar_name_is_told_for_a_queue_and_once_among_many_tasks(opened: Open):
    client = await opened()
    await client.call("register", **JOB)
    wrong = f"{NAME}s"

    queue = (await client.ask("job", job=wrong, paused=True))["problem"]["detail"]
    many = (await client.call("submit_each", room="lab", tasks=[{"job": NAME}, {"job": wrong}, {"job": wrong}]))[
        "tasks"
    ]

    told = [queue, *(one["problem"]["detail"] for one in many[1:])]
    assert [f" (did you mean {NAME}?)" in one for one in told] == [True, True, False]


async def test_an_await_pushes_what_is_over_already_and_what_ends_later(opened: Open):
    client, other = await opened(), await opened()
    await client.call("register", **JOB)
    over, later, dropped = await submit(client, 3)
    await client.call("action", id=over["id"], action="cancel")

    await other.call("await", ids=[over["id"], later["id"], dropped["id"]])
    assert [task["id"] for task in (await other.pushed("result"))["tasks"]] == [over["id"]]
    await other.call("unawait", ids=[dropped["id"]])
    await client.call("actions", action="cancel", ids=[dropped["id"], later["id"]])

    assert [task["id"] for task in (await other.pushed("result"))["tasks"]] == [later["id"]]
    await other.call("ping")
    assert not other.pushes


async def test_one_await_after_the_other_of_what_is_over_waits_for_no_services_turn(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    client = await opened()
    await client.call("register", **JOB)
    over = [task["id"] for task in await submit(client, 3)]
    await client.call("actions", action="cancel", ids=over)
    monkeypatch.setattr(Service, "least_turn", 3600)

    for task_id in over:
        assert (await client.call("await", ids=[task_id]))["missing"] == []
        assert [task["id"] for task in (await client.pushed("result"))["tasks"]] == [task_id]


async def test_a_submit_of_a_known_task_pushes_its_result_too(opened: Open):
    """G6."""
    client = await opened()
    await client.call("register", **JOB)
    task_id = str(uuid4())
    await submit(client, id=task_id)
    await client.call("action", id=task_id, action="cancel")

    [again] = await submit(client, id=task_id, wait=True)

    assert again["status"] == "cancelled"
    assert [task["id"] for task in (await client.pushed("result"))["tasks"]] == [task_id]


async def test_everything_about_a_task_can_be_asked_for_and_changed(opened: Open):
    client = await opened()
    job = await client.call("register", **JOB)
    assert (job["full_name"], job["workers"]) == (NAME, [])
    [task] = await submit(client)

    assert (await client.call("edit", id=task["id"], priority=4))["priority"] == 4
    changed = await client.call("edit", id=task["id"], timeout=5, pool="gpu", unique_key="k", deadline=LATEST)
    assert {name: changed[name] for name in ("timeout", "pool", "unique_key", "deadline")} == {
        "timeout": 5.0, "pool": "gpu", "unique_key": "k", "deadline": LATEST,
    }  # fmt: skip
    assert (await client.call("edit", id=task["id"], pool=None))["pool"] is None
    assert await client.refused("edit", id=task["id"], max_retries=-1) == "validation-error"
    assert await client.refused("edit", id=task["id"], status="cancelled") == "validation-error"
    assert (await client.call("action", id=task["id"], action="pause"))["status"] == "paused"
    assert await client.refused("action", id=task["id"], action="pause") == "invalid-task-transition"
    assert await client.refused("action", id=task["id"], action="resume", if_version=1) == "task-conflict"
    assert await client.refused("action", id=task["id"], action="resume", result=1) == "validation-error"
    resolved = await client.call("action", id=task["id"], action="resolve", status="completed", result={"by": "hand"})
    assert (resolved["status"], resolved["result"], resolved["settled"]) == ("completed", {"by": "hand"}, True)
    assert [run["status"] for run in (await client.call("runs", id=task["id"]))["items"]] == ["completed"]
    assert (await client.call("logs", id=task["id"]))["items"] == []
    assert (await client.call("job", job=NAME, paused=True))["paused"] is True
    assert await client.refused("job", job="nonsense", paused=True) == "job-not-found"
    assert await client.refused("register", room="lab", category="nope", name="x") == "invalid-category"


async def test_ten_thousand_tasks_are_submitted_and_answered_in_one_frame(opened: Open):
    client = await opened()
    await client.call("register", **JOB)

    tasks = await submit(client, 10_000)

    assert [task["queue_position"] for task in tasks] == list(range(1, 10_001))
    assert "payload" not in tasks[0]


async def test_what_a_filter_means_is_frozen_and_edited_on_the_socket_as_over_http(opened: Open):
    """TUI.md 6."""
    client = await opened()
    await client.call("register", **JOB)
    first, second = [task["id"] for task in await submit(client, 2)]

    frozen = await client.call("freeze", filter={"job": NAME})
    edits = [{"id": item["id"], "if_version": item["version"], "priority": 4} for item in frozen["items"]]
    await client.call("edit", id=second, priority=1)
    result = await client.call("edits", edits=edits)

    assert ([item["id"] for item in frozen["items"]], frozen["is_capped"]) == ([first, second], False)
    assert result["versions"] == {first: 2}
    assert [(one["id"], one["outcome"], one["version"]) for one in result["problems"]] == [(second, "changed", 2)]


async def test_a_tasks_history_and_who_asks_are_told_on_the_socket_too(opened: Open):
    client = await opened()
    await client.call("register", **JOB)
    [task] = await submit(client)
    await client.call("action", id=task["id"], action="cancel")

    history = await client.call("history", id=task["id"])
    who = await client.call("whoami")

    assert [one["kind"] for one in history["items"]] == ["created", "cancelled"]
    assert (who["user"], who["superuser"], who["may_write"]) == ("admin", True, True)


async def test_a_message_is_sent_on_the_socket_as_over_http(opened: Open):
    client = await opened()
    await client.call("register", **JOB)
    [task] = await submit(client)
    message = {"task_id": task["id"], "name": "approved/by", "data": {"by": "ann"}, "id": str(uuid4())}

    sent = await client.call("send", **message)

    assert {name: sent[name] for name in ("task_id", "name", "id", "received")} == {
        **{name: message[name] for name in ("task_id", "name", "id")},
        "received": False,
    }
    assert await client.call("send", **message) == sent
    assert await client.refused("send", **{**message, "data": 2}) == "task-conflict"
    assert await client.refused("send", **{**message, "id": "2", "data": "x" * 100_000}) == "validation-error"
    assert await client.refused("send", **{**message, "name": ""}) == "validation-error"
    assert await client.refused("send", **{**message, "task_id": str(uuid4())}) == "task-not-found"
    await client.call("action", id=task["id"], action="cancel")
    assert await client.refused("send", **{**message, "id": "3"}) == "invalid-task-transition"


async def test_an_await_says_what_is_not_there_and_pushes_it_when_it_has_come(opened: Open):
    client, other = await opened(), await opened()
    await client.call("register", **JOB)
    [there] = await submit(client)
    later = str(uuid4())

    answer = await other.call("await", ids=[there["id"], later])
    await submit(client, id=later)
    again = await other.call("await", ids=[later])
    await client.call("actions", action="cancel", ids=[later])

    assert (answer["missing"], again["missing"]) == ([later], [])
    assert [task["id"] for task in (await other.pushed("result"))["tasks"]] == [later]
