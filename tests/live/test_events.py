"""Each transition once, and how a stream is resumed (G7, Z16)."""

import tracemalloc
from typing import Any

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, Socket, submit
from treadle_server.live import events
from treadle_server.operations import encode
from treadle_server.testing import Served


async def told(socket: Socket, seq: int) -> list[dict[str, Any]]:
    """Return the events up to the one with number `seq`."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["seq"] < seq:
        found += (await socket.pushed("events"))["events"]
    return found


async def test_each_transition_is_told_once_and_in_order(served: Served, opened: Open):
    """Z16."""
    observer, client = await opened(), await opened()
    ok = await observer.call("every")
    assert ok == {"stream": served.engine.hub.stream, "seq": served.engine.hub.seq}

    await client.call("register", **JOB)
    [task] = await submit(client)
    await client.call("action", id=task["id"], action="pause")
    await client.call("action", id=task["id"], action="cancel")
    found = await told(observer, served.engine.hub.seq)

    assert [(e["type"], e.get("was"), e.get("task", {}).get("status")) for e in found] == [
        ("job.updated", None, None),
        ("task.updated", None, "pending"),
        ("task.available", None, None),
        ("task.updated", "pending", "paused"),
        ("task.updated", "paused", "cancelled"),
    ]
    assert [e["seq"] for e in found] == [ok["seq"] + n for n in (1, 2, 2, 3, 4)]
    assert {"payload", "result", "checkpoint"}.isdisjoint(found[1]["task"])
    assert (found[2]["job"], found[2]["room"]) == (NAME, "lab")


async def test_a_stream_is_resumed_where_it_was_left(served: Served, opened: Open):
    """G7."""
    client, early = await opened(), await opened()
    await client.call("register", **JOB)
    await early.call("every")
    await early.connection.close()
    seq = served.engine.hub.seq
    await submit(client, 3)
    late = await opened()

    await late.call("every", since={"stream": served.engine.hub.stream, "seq": seq})

    found = await told(late, served.engine.hub.seq)
    assert [e["seq"] for e in found if e["type"] == "task.updated"] == [seq + 1, seq + 2, seq + 3]


async def test_what_happened_while_nobody_wanted_to_know_says_reload(served: Served, opened: Open):
    """G7: events are not kept for nobody."""
    client, late = await opened(), await opened()
    await client.call("register", **JOB)
    seq = served.engine.hub.seq
    await submit(client, 3)

    await late.call("every", since={"stream": served.engine.hub.stream, "seq": seq})

    assert (await late.pushed("reload"))["seq"] == served.engine.hub.seq


async def test_another_stream_or_a_gap_says_reload(served: Served, opened: Open, monkeypatch: Any):
    """G7: after a restart, or when the events are no longer kept."""
    client, observer = await opened(), await opened()
    await client.call("register", **JOB)
    hub = served.engine.hub

    await observer.call("every", since={"stream": "another", "seq": 0})
    assert await observer.pushed("reload") == {"push": "reload", "stream": hub.stream, "seq": hub.seq}
    await observer.call("every", since={"stream": hub.stream, "seq": hub.seq + 5})
    assert (await observer.pushed("reload"))["seq"] == hub.seq

    served.app.state.live.events._first = hub.seq
    await submit(client)
    await observer.call("every", since={"stream": hub.stream, "seq": 0})
    assert (await observer.pushed("reload"))["seq"] == hub.seq
    assert events.KEPT == 10_000


async def test_events_of_one_job_or_room_are_told_apart(served: Served, opened: Open):
    by_job, by_room, client = await opened(), await opened(), await opened()
    await client.call("register", **JOB)
    await client.call("register", **{**JOB, "room": "den"})
    await by_job.call("every", job=NAME)
    await by_room.call("every", room="den")
    await client.call("submit", room="den", tasks=[{"job": "den:tasks:add"}])
    await submit(client)

    assert {e["task"]["job_name"] for e in await told(by_job, served.engine.hub.seq) if "task" in e} == {NAME}
    [first] = [e for e in (await by_room.pushed("events"))["events"] if "task" in e]
    assert first["task"]["job_name"] == "den:tasks:add"
    await by_job.call("every", on=False)
    await submit(client)
    await by_job.call("ping")
    assert not by_job.pushes


async def test_no_event_is_sent_for_what_was_refused(served: Served, opened: Open):
    """G7, G9."""
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    await observer.call("every")
    seq = served.engine.hub.seq

    assert (
        await client.refused("submit", room="lab", tasks=[{"job": NAME}, {"job": "lab:tasks:none"}]) == "job-not-found"
    )
    await observer.call("ping")

    assert served.engine.hub.seq == seq
    assert not observer.pushes


async def test_what_is_kept_of_the_stream_takes_no_more_memory_than_its_text(served: Served, opened: Open):
    client = await opened()
    await client.call("register", **JOB)
    observer = await opened()
    await observer.call("every")
    kept = served.app.state.live.events._kept
    before = len(kept)

    tracemalloc.start(1)
    try:
        await submit(client, 200)
        traced = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()

    fresh = list(kept)[before:]
    text = sum(len(event.encoded) + len(event.brief or b"") for event in fresh)
    taken = sum(
        stat.size
        for stat in traced.statistics("filename")
        if stat.traceback[0].filename in {events.__file__, encode.__file__}
    )
    assert len(fresh) == 400
    assert text < taken < 2 * text


async def test_an_events_screen_opens_with_the_last_transitions_though_nobody_listened(served: Served, opened: Open):
    """TUI.md, events: brief, by job or task, and what follows joins on without a gap."""
    client, observer = await opened(), await opened()
    await client.call("register", **JOB)
    first, second = await submit(client, 2)
    await client.call("action", id=first["id"], action="cancel")

    ok = await observer.call("every", brief=True, recent=3)
    before = (await observer.pushed("events"))["events"]
    await client.call("action", id=second["id"], action="pause")
    [after] = (await observer.pushed("events"))["events"]

    assert [(e["type"], e["task"]["id"], e["was"], e["task"]["status"]) for e in before] == [
        ("task.updated", first["id"], None, "pending"),
        ("task.updated", second["id"], None, "pending"),
        ("task.updated", first["id"], "pending", "cancelled"),
    ]
    assert [e["seq"] for e in before] == [ok["seq"] - 2, ok["seq"] - 1, ok["seq"]]
    assert (after["seq"], after["was"], after["task"]["status"]) == (ok["seq"] + 1, "pending", "paused")
    assert before[2]["task"] == {
        "id": first["id"], "job_name": NAME, "room_id": "lab", "status": "cancelled", "worker_id": None,
        "run_id": None, "reason": "cancelled", "error": None, "target": None, "tags": None,
    }  # fmt: skip


async def test_events_of_one_task_are_told_apart_and_resumed_in_brief(served: Served, opened: Open):
    client, observer, late = await opened(), await opened(), await opened()
    await client.call("register", **JOB)
    first, second = await submit(client, 2)
    await observer.call("every", brief=True, task_id=first["id"])
    seq = served.engine.hub.seq

    await client.call("action", id=second["id"], action="cancel")
    await client.call("action", id=first["id"], action="cancel")
    await late.call("every", brief=True, task_id=first["id"], since={"stream": served.engine.hub.stream, "seq": seq})

    for socket in (observer, late):
        [event] = (await socket.pushed("events"))["events"]
        assert (event["task"]["id"], event["task"]["status"]) == (first["id"], "cancelled")
        assert "max_retries" not in event["task"]


async def test_a_heartbeat_is_no_transition_in_brief_but_a_worker_that_drains_is_one(opened: Open):
    worker, observer = await opened(), await opened()
    await observer.call("every", brief=True)
    await worker.call("open", worker={"name": "w"}, jobs=[JOB])

    for _ in range(3):
        await worker.call("beat")
    await worker.call("beat", draining=True)
    await observer.call("ping")

    found = [event for push in observer.pushes for event in push["events"] if event["type"] == "worker.updated"]
    assert [(event["worker"]["name"], event["worker"]["state"]) for event in found] == [
        ("w", "online"),
        ("w", "draining"),
    ]


async def test_a_worker_that_was_there_before_does_not_come_online_for_whoever_begins_to_look(opened: Open):
    """Its next heartbeat stood in the dashboard's list of events as if it had come just then."""
    worker, observer = await opened(), await opened()
    await worker.call("open", worker={"name": "w"}, jobs=[JOB])
    await observer.call("every", brief=True)

    await worker.call("beat")
    await worker.call("beat", draining=True)
    await observer.call("ping")

    found = [event for push in observer.pushes for event in push["events"] if event["type"] == "worker.updated"]
    assert [event["worker"]["state"] for event in found] == ["draining"]


async def test_the_last_of_a_large_commit_are_kept_and_the_numbers_tell_what_is_missing(served: Served, opened: Open):
    client, observer = await opened(), await opened()
    await client.call("register", **JOB)
    tasks = await submit(client, 60)

    await observer.call("every", brief=True, recent=500)

    found = [e for e in (await observer.pushed("events"))["events"] if e["type"] == "task.updated"]
    assert [e["task"]["id"] for e in found] == [task["id"] for task in tasks[-25:]]
    assert [e["seq"] for e in found] == list(range(served.engine.hub.seq - 24, served.engine.hub.seq + 1))


async def test_recent_events_are_kept_in_brief_alone(opened: Open):
    """G9."""
    observer = await opened()

    assert await observer.refused("every", recent=5) == "validation-error"
    since = {"stream": "x", "seq": 1}
    assert await observer.refused("every", brief=True, recent=5, since=since) == "validation-error"
    assert await observer.refused("every", brief=True, recent=501) == "validation-error"
