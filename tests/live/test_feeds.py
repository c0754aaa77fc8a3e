"""What observers see: snapshots, deltas, and that they end where the store is (G7)."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.live.conftest import Open
from tests.live.sockets import JOB, NAME, Socket, ref, submit
from treadle_server.live import feeds, task_windows
from treadle_server.testing import Served

KEYS = {"counts": "job"} | dict.fromkeys(("jobs", "workers", "targets", "schedules", "limits", "tasks", "task"), "id")


class Mirror:
    """A subscription as an observer keeps it: the snapshot, changed by each delta."""

    def __init__(self, socket: Socket, sub: str) -> None:
        self.socket = socket
        self.sub = sub
        self.rows: dict[str, Any] = {}
        self.order: list[str] = []
        self.total = 0
        self.ahead = (0, False)
        self.frames: list[int] = []

    async def watch(self, topic: str, **fields: Any) -> "Mirror":
        await self.socket.call("watch", sub=self.sub, topic=topic, **fields)
        snapshot = await self.socket.pushed("snapshot", sub=self.sub)
        self._take(snapshot)
        self.order = list(self.rows)
        return self

    def _take(self, push: dict[str, Any]) -> None:
        key = KEYS[push["topic"]]
        for row in push["rows"]:
            self.rows[row[key]] = row
        for gone in push.get("gone", ()):
            del self.rows[gone]
        self.order = push.get("order", self.order)
        self.total = push["total"]
        self.ahead = (push.get("ahead", 0), push.get("ahead_is_capped", False))
        self.frames.append(push["frame"])

    async def until(self, condition: Any) -> "Mirror":
        """Take deltas until the condition holds."""
        while not condition(self):
            self._take(await self.socket.pushed("delta", sub=self.sub))
        return self

    def statuses(self) -> list[str]:
        return [self.rows[key]["status"] for key in self.order]


async def test_every_topic_ends_where_the_store_is(served: Served, opened: Open):
    """G7."""
    observer, client, worker = await opened(), await opened(), await opened()
    mirrors = {topic: await Mirror(observer, topic).watch(topic) for topic in ("counts", "jobs", "workers")}
    tasks = await Mirror(observer, "tasks").watch("tasks", window={"order": "position", "limit": 10})

    opening = await worker.call("open", worker={"name": "w"}, jobs=[JOB])
    await submit(client, 3)
    [first] = await worker.claims(1)
    await worker.call("reports", reports=[{**ref(first), "kind": "started"}])

    await tasks.until(lambda m: m.statuses() == ["running", "pending", "pending"])
    await tasks.until(lambda m: [m.rows[key]["queue_position"] for key in m.order] == [None, 1, 2])
    await tasks.until(lambda m: m.total == 3)
    await mirrors["counts"].until(lambda m: m.rows.get(NAME, {}).get("counts") == {"running": 1, "pending": 2})
    await mirrors["jobs"].until(lambda m: any(row["counts"] == {"running": 1, "pending": 2} for row in m.rows.values()))
    worker_id = opening["worker"]["id"]
    await mirrors["workers"].until(
        lambda m: (
            [
                {"task_id": run["task_id"], "run_id": run["run_id"]}
                for run in m.rows.get(worker_id, {}).get("running", ())
            ]
            == [ref(first)]
        )
    )
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        for row in tasks.rows.values():
            assert row == (await http.get(f"/v1/tasks/{row['id']}")).json()


async def test_a_window_tells_new_gone_and_moved_rows(opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    window = {"order": "position", "limit": 3, "filter": {"job": NAME, "status": ["pending"]}}
    mirror = await Mirror(observer, "w").watch("tasks", window=window)
    a, b, c, d = [task["id"] for task in await submit(client, 4)]
    await mirror.until(lambda m: m.order == [a, b, c])

    await client.call("edit", id=d, priority=5)
    await mirror.until(lambda m: m.order == [d, a, b] and c not in m.rows)
    await client.call("action", id=a, action="cancel")

    await mirror.until(lambda m: m.order == [d, b, c] and a not in m.rows)
    await mirror.until(lambda m: [m.rows[key]["queue_position"] for key in m.order] == [1, 2, 3])
    await mirror.until(lambda m: m.total == 3)


async def test_a_window_is_read_once_and_then_follows_what_is_committed_g7(
    opened: Open, monkeypatch: pytest.MonkeyPatch
):
    reads = 0
    real = task_windows.window

    async def counting(*given: Any) -> Any:
        nonlocal reads
        reads += 1
        return await real(*given)

    monkeypatch.setattr(task_windows, "window", counting)
    observer, worker = await opened(), await opened()
    await worker.call("open", worker={"concurrency": 2}, jobs=[JOB])
    window = {"order": "position", "limit": 5, "filter": {"job": NAME}}
    mirror = await Mirror(observer, "w").watch("tasks", window=window)

    await submit(observer, 8)
    await mirror.until(lambda m: m.statuses() == ["claimed", "claimed", "pending", "pending", "pending"])
    for claim in await worker.claims(2):
        await worker.call("reports", reports=[{**ref(claim), "kind": "started"}, {**ref(claim), "kind": "completed"}])
    await mirror.until(lambda m: m.statuses() == ["claimed", "claimed", "pending", "pending", "pending"])

    await mirror.until(lambda m: m.total == 8)
    assert reads == 1


async def test_targets_are_told_as_they_are_taken_waited_for_and_let_go_l7(served: Served, opened: Open):
    """G7: and each push holds the rows that changed, no others."""
    observer, client, worker = await opened(), await opened(), await opened()
    await worker.call("open", worker={"concurrency": 2}, jobs=[JOB])
    [other] = await submit(client, target="b")
    [claim] = await worker.claims(1)
    mirror = await Mirror(observer, "t").watch("targets")
    elsewhere = await Mirror(observer, "e").watch("targets", room="den")

    def gpu(m: Mirror) -> dict[str, Any]:
        return next((row for row in m.rows.values() if row["name"] == "gpu"), {})

    first, second = await submit(client, 2, target="gpu")
    [mine] = await worker.claims(1)
    await mirror.until(lambda m: (gpu(m).get("cause"), gpu(m).get("waiting")) == ("claimed", 1))
    assert {row["name"] for row in mirror.rows.values()} == {"b", "gpu"}
    await client.call("action", id=first["id"], action="cancel")
    await mirror.until(lambda m: gpu(m)["cause"] == "stopping")
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        assert gpu(mirror) == (await http.get("/v1/rooms/lab/targets/gpu")).json()
    await client.call("action", id=second["id"], action="cancel")
    await worker.call("reports", reports=[{**ref(mine), "kind": "stopped"}])

    await mirror.until(lambda m: not gpu(m))
    assert [row["holders"][0]["task_id"] for row in mirror.rows.values()] == [other["id"]] == [claim["id"]]
    assert (mirror.total, elsewhere.rows) == (1, {})


async def test_a_delta_of_targets_has_only_those_that_changed(opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    for name in ("a", "b"):
        await submit(client, target=name)
    await Mirror(observer, "t").watch("targets")

    await submit(client, target="b")

    delta = await observer.pushed("delta", sub="t")
    assert ([row["name"] for row in delta["rows"]], delta["gone"], delta["total"]) == (["b"], [], 2)


async def test_a_window_tells_of_a_blocker_of_another_job_and_of_its_end_l7(opened: Open):
    observer, client, worker = await opened(), await opened(), await opened()
    await client.call("register", **JOB)
    await worker.call("open", worker={}, jobs=[{**JOB, "name": "other"}])
    tasks = [{"job": "lab:tasks:other", "payload": {}, "target": "gpu"}]
    await client.call("submit", room="lab", tasks=tasks)
    [blocker] = await worker.claims(1)
    [task] = await submit(client, target="gpu")
    window = await Mirror(observer, "w").watch("tasks", window={"filter": {"job": NAME}})
    one = await Mirror(observer, "o").watch("task", task_id=task["id"])
    assert window.rows[task["id"]]["blocked_by"] == one.rows[task["id"]]["task"]["blocked_by"] == [blocker["id"]]

    await client.call("action", id=blocker["id"], action="cancel")
    await worker.call("reports", reports=[{**ref(blocker), "kind": "stopped"}])

    await window.until(lambda m: m.rows[task["id"]]["blocked_by"] is None)
    await one.until(lambda m: m.rows[task["id"]]["task"]["blocked_by"] is None)


async def test_a_window_and_a_task_alone_tell_when_the_limit_opens_that_they_wait_for(served: Served, opened: Open):
    observer, client, worker = await opened(), await opened(), await opened()
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        rate = {"rate": {"count": 1, "seconds": 3600}}
        assert (await http.put("/v1/rooms/lab/limits/slow", json=rate)).status_code == 201
        await client.call("register", **JOB, limits=[{"name": "slow"}])
        [first, second] = await submit(client, 2)
        window = await Mirror(observer, "w").watch("tasks", window={"filter": {"job": NAME}})
        one = await Mirror(observer, "o").watch("task", task_id=second["id"])
        assert window.rows[second["id"]]["blocked_by"] == ["limit:lab/slow"]

        await worker.call("open", worker={}, jobs=[JOB])
        [claimed] = await worker.claims(1)

        assert claimed["id"] == first["id"]
        await window.until(lambda m: "limit_opens_at" in m.rows[second["id"]])
        await one.until(lambda m: "limit_opens_at" in m.rows[second["id"]]["task"])


async def test_a_window_and_a_task_alone_tell_at_once_that_a_limit_lets_a_task_through(served: Served, opened: Open):
    observer, client, worker = await opened(), await opened(), await opened()
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        path = "/v1/rooms/lab/limits/api"
        assert (await http.put(path, json={"concurrency": 1})).status_code == 201
        await worker.call("open", worker={"concurrency": 1}, jobs=[{**JOB, "limits": [{"name": "api"}]}])
        [_, second] = await submit(client, 2)
        await worker.claims(1)
        windows = [
            await Mirror(observer, sub).watch("tasks", window={"filter": wanted})
            for sub, wanted in (("w", {"job": NAME}), ("t", {"text": second["id"]}))
        ]
        one = await Mirror(observer, "o").watch("task", task_id=second["id"])
        for window in windows:
            await window.until(lambda m: m.rows[second["id"]]["blocked_by"] == ["limit:lab/api"])

        # Its worker is full: nothing else happens to the task.
        assert (await http.put(path, json={"concurrency": 2})).status_code == 200

        for window in windows:
            await window.until(lambda m: m.rows[second["id"]]["blocked_by"] is None)
        await one.until(lambda m: m.rows[second["id"]]["task"]["blocked_by"] is None)


async def test_one_task_is_shown_with_its_runs_and_logs(opened: Open):
    observer, worker = await opened(), await opened()
    await worker.call("open", worker={}, jobs=[JOB])
    [task] = await submit(observer)
    [claim] = await worker.claims(1)
    mirror = await Mirror(observer, "t").watch("task", task_id=task["id"])

    await worker.call(
        "reports",
        reports=[
            {**ref(claim), "kind": "started"},
            {**ref(claim), "kind": "progress", "share": 0.5},
            {**ref(claim), "kind": "logs", "lines": [{"message": "hello"}]},
        ],
    )

    await mirror.until(lambda m: m.rows[task["id"]]["task"]["progress"] == {"share": 0.5, "message": None})
    await mirror.until(lambda m: [line["message"] for line in m.rows[task["id"]]["logs"]] == ["hello"])
    assert mirror.rows[task["id"]]["runs"][0]["status"] == "running"
    assert [one["kind"] for one in mirror.rows[task["id"]]["events"]] == ["created", "claimed", "started"]


async def test_a_task_that_does_not_exist_has_no_row(opened: Open):
    observer = await opened()

    mirror = await Mirror(observer, "t").watch("task", task_id="01a1fca0-0000-7000-8000-000000000000")

    assert (mirror.rows, mirror.total) == ({}, 0)


async def test_equal_windows_are_read_once_for_all(served: Served, opened: Open):
    first, second = await opened(), await opened()
    await first.call("register", **JOB)
    one = await Mirror(first, "x").watch("tasks", window={"limit": 5})
    two = await Mirror(second, "y").watch("tasks", window={"limit": 5})

    assert len(served.app.state.live.feeds._feeds) == 1
    [task] = await submit(first)
    await one.until(lambda m: task["id"] in m.rows)
    await two.until(lambda m: task["id"] in m.rows)


async def test_a_burst_is_told_in_few_frames_with_the_last_state(opened: Open):
    """At most ten frames a second, each with the last state of what changed."""
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    mirror = await Mirror(observer, "c").watch("counts")
    began = asyncio.get_running_loop().time()

    for _ in range(40):
        await submit(client, 5)
    await mirror.until(lambda m: m.rows[NAME]["counts"] == {"pending": 200})

    seconds = asyncio.get_running_loop().time() - began
    assert observer.frames <= 3 + 10 * (seconds + 1)


async def test_an_ended_subscription_gets_nothing_and_a_replaced_one_the_new_topic(served: Served, opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    await Mirror(observer, "x").watch("tasks")
    await Mirror(observer, "x").watch("counts")
    other = await Mirror(observer, "y").watch("tasks")

    await observer.call("unwatch", sub="x")
    [task] = await submit(client)
    await other.until(lambda m: task["id"] in m.rows)

    assert not [push for push in observer.pushes if push.get("sub") == "x"]
    await observer.connection.close()
    await client.call("ping")
    assert served.app.state.live.feeds._feeds == {}


async def test_a_session_has_a_hundred_subscriptions_however_many_are_asked_for_in_one_frame_n3(opened: Open):
    observer = await opened()
    watches = [{"op": "watch", "sub": f"sub-{n}", "topic": "counts"} for n in range(102)]

    answers = [await answer for answer in await observer.send({**watches[0], "room": "a:b"}, *watches[:-1])]

    assert ["problem" in answer for answer in answers] == [True, *[False] * 100, True]
    assert answers[-1]["problem"]["type"] == "/v1/problems/too-many-requests"
    again, refused = [await answer for answer in await observer.send(watches[0], watches[-1])]
    assert ("ok" in again, "problem" in refused) == (True, True)
    await observer.call("unwatch", sub="sub-7")
    await observer.call("watch", sub="sub-101", topic="counts")


async def test_a_room_narrows_jobs_and_tasks(opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    await client.call("register", **{**JOB, "room": "den"})
    await submit(client)

    jobs = await Mirror(observer, "j").watch("jobs", room="den")
    tasks = await Mirror(observer, "t").watch("tasks", room="den")

    assert [row["full_name"] for row in jobs.rows.values()] == ["den:tasks:add"]
    assert tasks.rows == {}


async def test_who_watches_jobs_is_sent_each_schema_once(opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)

    jobs = await Mirror(observer, "j").watch("jobs")

    [row] = jobs.rows.values()
    assert {name for name in row if name.startswith("schema")} == {"schema", "schema_version"}


async def test_a_job_shows_what_it_did_lately(served: Served, opened: Open):
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    mirror = await Mirror(observer, "j").watch("jobs")
    tasks = await submit(client, 3)

    await client.call("actions", action="pause", ids=[task["id"] for task in tasks])
    await client.call("action", id=tasks[0]["id"], action="resolve", status="completed")
    await client.call("action", id=tasks[1]["id"], action="resolve", status="failed", error="x")

    def history(m: Mirror) -> dict[str, Any]:
        [row] = m.rows.values()
        return row["history"]  # type: ignore[no-any-return]

    await mirror.until(lambda m: (sum(history(m)["completed"]), sum(history(m)["failed"])) == (1, 1))
    assert (history(mirror)["step_seconds"], len(history(mirror)["completed"])) == (10, 30)
    assert sum(history(mirror)["submitted"]) == 3
    [row] = mirror.rows.values()
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        assert row["stats"] == (await http.get(f"/v1/rooms/lab/jobs/{NAME}")).json()["stats"]


async def test_a_window_larger_than_a_frame_comes_in_parts(opened: Open, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(feeds, "MOST_BYTES", 3000)
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    ids = [task["id"] for task in await submit(client, 10)]

    mirror = await Mirror(observer, "x").watch("tasks", window={"order": "oldest"})
    assert 0 < len(mirror.rows) < 10
    await mirror.until(lambda m: m.order == ids)
    await client.call("actions", action="pause", ids=ids)

    await mirror.until(lambda m: m.statuses() == ["paused"] * 10)
    assert list(mirror.rows) == ids


async def test_the_pushes_of_a_subscription_are_numbered_so_that_a_lost_one_is_noticed_g7(opened: Open):
    """TUI.md 7: `prev` names the push that a delta follows, for each observer of a shared view by itself."""
    early, late, client = await opened(), await opened(), await opened()
    await client.call("register", **JOB)
    one = await Mirror(early, "w").watch("tasks")
    for n in range(1, 4):
        await submit(client)
        await one.until(lambda m, n=n: len(m.rows) == n)
    two = Mirror(late, "w")
    await late.call("watch", sub="w", topic="tasks")
    await submit(client)
    await one.until(lambda m: len(m.rows) == 4)
    first = await late.pushed("snapshot", sub="w")
    second = await late.pushed("delta", sub="w")

    assert (first["frame"], "prev" in first) == (0, False)
    assert (second["frame"], second["prev"]) == (1, 0)
    assert two.sub == "w"
    frames = [push for push in early.pushes if push["push"] == "delta"]
    assert one.frames == list(range(len(one.frames)))
    assert all(push["prev"] == push["frame"] - 1 for push in frames)


async def test_a_window_tells_how_many_newer_tasks_stand_before_it(opened: Open):
    """TUI.md 2: `+37 newer`; and its rows stand still."""
    observer, client = await opened(), await opened()
    await client.call("register", **JOB)
    ids = [task["id"] for task in await submit(client, 6)]
    window = {"filter": {"job": NAME}, "first": ids[3], "limit": 3}
    mirror = await Mirror(observer, "w").watch("tasks", window=window)
    assert (mirror.order, mirror.total, mirror.ahead) == ([ids[3], ids[2], ids[1]], 6, (2, False))

    await submit(client, 5)

    await mirror.until(lambda m: (m.total, m.ahead) == (11, (7, False)))
    assert mirror.order == [ids[3], ids[2], ids[1]]


async def test_a_window_stands_still_when_the_task_that_it_hangs_on_is_claimed(opened: Open):
    """TUI.md 1."""
    observer, worker = await opened(), await opened()
    await observer.call("register", **JOB)
    ids = [task["id"] for task in await submit(observer, 6)]
    window = {"filter": {"job": NAME}, "order": "position", "first": ids[0], "limit": 3}
    mirror = await Mirror(observer, "w").watch("tasks", window=window)

    await worker.call("open", worker={"concurrency": 2}, jobs=[JOB], prefetch=0)
    await worker.claims(2)

    await mirror.until(lambda m: m.order == ids[2:5] and m.ahead == (2, False))


async def test_limits_are_told_as_they_are_made_used_waited_for_freed_and_deleted(served: Served, opened: Open):
    """G7."""
    observer, client, worker = await opened(), await opened(), await opened()
    limits = await Mirror(observer, "l").watch("limits")
    async with httpx.AsyncClient(base_url=served.url, headers=served.headers) as http:
        path = "/v1/rooms/lab/limits/api"
        assert (await http.put(path, json={"concurrency": 1})).status_code == 201
        await limits.until(lambda m: [row["concurrency"] for row in m.rows.values()] == [1])
        await worker.call("open", worker={"concurrency": 2}, jobs=[{**JOB, "limits": [{"name": "api", "key": "a"}]}])
        await submit(client, 2)
        [task] = await worker.claims(1)

        def told(mirror: Mirror) -> list[tuple[int, int]]:
            return [(row["used"], row["waiting"]) for row in mirror.rows.values()]

        await limits.until(lambda m: told(m) == [(1, 1)])
        assert [one["key"] for row in limits.rows.values() for one in row["busiest"]] == ["a"]
        assert list(limits.rows.values()) == (await http.get("/v1/rooms/lab/limits")).json()["items"]
        await client.call("action", id=task["id"], action="cancel")
        await limits.until(lambda m: told(m) == [(1, 1)])
        await worker.call("reports", reports=[{**ref(task), "kind": "stopped"}])
        [other] = await worker.claims(1)
        await limits.until(lambda m: told(m) == [(1, 0)])
        await worker.call("reports", reports=[{**ref(other), "kind": "started"}, {**ref(other), "kind": "completed"}])
        await limits.until(lambda m: told(m) == [(0, 0)])
        assert (await http.put(path, json={"concurrency": 7})).status_code == 200
        await limits.until(lambda m: [row["concurrency"] for row in m.rows.values()] == [7])
