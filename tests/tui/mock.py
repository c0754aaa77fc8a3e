"""A server without a network: holds rows, answers requests, and pushes what the dashboard watches."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from treadle.errors import ConnectionFailed, ConnectionLost, error_for, problem_named
from treadle.wire.frames import LOGGED_TASKS
from treadle_tui.core.live.feed import Event, Lost, Opened, Pushed

NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class FrozenClock:
    """Stands still until it is told to go on."""

    def __init__(self) -> None:
        self.instant = NOON
        self.seconds = 1000.0

    def now(self) -> datetime:
        return self.instant

    def steady(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.instant += timedelta(seconds=seconds)
        self.seconds += seconds


class MockServer:
    """What a server would hold; also a `Link`, so a feed can be put straight on it."""

    def __init__(self, clock: FrozenClock) -> None:
        self.clock = clock
        self.jobs: dict[str, dict[str, Any]] = {}
        self.failures: dict[str, dict[str, Any]] = {}
        self.failing: dict[str, list[str]] = {}
        """The tasks of a group of failures, by its id."""
        self.workers: dict[str, dict[str, Any]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.targets: dict[str, dict[str, Any]] = {}
        self.flows: dict[str, dict[str, Any]] = {}
        """Flows by their ids: `name`, `tasks` in the order of their arrival, and `edges`."""
        self.schedules: dict[str, dict[str, Any]] = {}
        self.limits: dict[str, dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        """What is kept of the stream of transitions."""
        self.first_event = 1
        """The number behind which events are kept."""
        self.hears_events = False
        self.runs: dict[str, list[dict[str, Any]]] = {}
        self.artifacts: dict[str, list[dict[str, Any]]] = {}
        self.steps: dict[str, list[dict[str, Any]]] = {}
        """What each task keeps."""
        self.logs: dict[str, list[dict[str, Any]]] = {}
        self.histories: dict[str, list[dict[str, Any]]] = {}
        """What happened to each task."""
        self.total: int | None = None
        """What the task list's total claims to be, for lists longer than anyone wants to build."""
        self.capped = False
        self.partial = False
        self.counts_ahead_to: int | None = None
        """How many tasks before a window it counts at most."""
        self.freezes = 10_000
        """How many tasks a freeze names at most."""
        self.seq = 1
        self.stream = "s"
        self.asked: list[dict[str, Any]] = []
        self.silent = False
        """A server that hangs: takes requests and never answers."""
        self.gate: asyncio.Event | None = None
        """A slow server: holds its answers back until this is set."""
        self.refuses: dict[str, str] = {}
        self.loses: set[str] = set()
        """Requests that are done, and the connection breaks before the answer."""
        self.may_write = True
        """Whether the token may change anything."""
        self.watched: dict[str, dict[str, Any]] = {}
        self.received = 0
        """What has come of an answer, in bytes."""
        self.resets = 0
        self.was_reset = asyncio.Event()
        self._sink: Callable[[Event], None] | None = None
        self.live = False

    # The link.

    async def run(self, sink: Callable[[Event], None]) -> None:
        self._sink = sink
        self.open()
        await asyncio.Event().wait()

    def reset(self) -> None:
        self.resets += 1
        self.was_reset.set()

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        self.asked.append({"op": op, **fields})
        if self.silent:
            await asyncio.Event().wait()
        if not self.live:
            raise ConnectionFailed("not connected")
        if self.gate is not None:
            await self.gate.wait()
            if not self.live:
                raise ConnectionLost("the connection broke before the answer came")
        if op in self.refuses:
            raise error_for(problem_named(self.refuses[op], "as the test wants it"))
        answer: dict[str, Any] = getattr(self, f"_on_{op}")(fields)
        if op in self.loses:
            self.drop()
            raise ConnectionLost("the connection broke before the answer came")
        return answer

    def open(self) -> None:
        """Let the connection stand."""
        assert self._sink is not None
        self.live = True
        self.watched.clear()
        self._sink(
            Opened({"protocol": 1, "stream": self.stream, "seq": self.seq, "time": self.clock.now().isoformat()})
        )

    def drop(self, detail: str = "no server answers at http://127.0.0.1:7420") -> None:
        """Break the connection."""
        assert self._sink is not None
        self.live = self.hears_events = False
        self.watched.clear()
        self._sink(Lost(detail))

    # Requests.

    def _on_whoami(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"user": "mara", "superuser": False, "scopes": [], "may_write": self.may_write}

    def _on_ping(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"time": self.clock.now().isoformat()}

    def _on_watch(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.watched[fields["sub"]] = fields
        self.push(fields["sub"])
        return {}

    def _on_unwatch(self, fields: dict[str, Any]) -> dict[str, Any]:
        self.watched.pop(fields["sub"], None)
        return {}

    def _on_get(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["id"] not in self.tasks:
            raise error_for(problem_named("task-not-found", "there is no such task"))
        return self.tasks[fields["id"]]

    def _on_get_flow(self, fields: dict[str, Any]) -> dict[str, Any]:
        if fields["id"] not in self.flows:
            raise error_for(problem_named("flow-not-found", f"there is no flow {fields['id']}"))
        flow = self.flows[fields["id"]]
        rows = [self.tasks[key] for key in flow["tasks"]]
        counts = Counter(row["status"] for row in rows)
        ended = sum(counts[status] for status in ("completed", "failed", "cancelled"))
        names = (
            *("id", "job_name", "status", "reason", "error", "waits_for", "on_dependency_failure"),
            *("created_at", "started_at", "completed_at"),
        )
        return {
            "id": fields["id"],
            "name": flow["name"],
            "room_id": "room_42",
            "created_at": rows[0]["created_at"],
            "total": len(rows),
            "counts": counts,
            "progress": ended / len(rows),
            "tasks": [{name: row.get(name) for name in names} for row in rows],
            "edges": flow["edges"],
            "is_capped": flow.get("is_capped", False),
        }

    def _on_every(self, fields: dict[str, Any]) -> dict[str, Any]:
        assert self._sink is not None
        self.hears_events = fields["on"]
        since = fields.get("since")
        if since is not None and (since["stream"] != self.stream or since["seq"] < self.first_event - 1):
            self._sink(Pushed({"push": "reload", "stream": self.stream, "seq": self.seq}))
        elif fields.get("recent"):
            self._send_events([event for event in self.events if event["seq"] >= self.first_event])
        elif since is not None:
            self._send_events([event for event in self.events if event["seq"] > since["seq"]])
        return {"stream": self.stream, "seq": self.seq}

    def _on_job(self, fields: dict[str, Any]) -> dict[str, Any]:
        job = next(job for job in self.jobs.values() if job["full_name"] == fields["job"])
        job["paused"] = fields["paused"]
        self.push_topic("jobs")
        return job

    def _on_drain_worker(self, fields: dict[str, Any]) -> dict[str, Any]:
        row = self.workers[fields["id"]]
        row["state"] = "draining"
        self.push_topic("workers")
        return row

    def _on_remove_worker(self, fields: dict[str, Any]) -> dict[str, Any]:
        del self.workers[fields["id"]]
        for sub in [sub for sub, watched in self.watched.items() if watched["topic"] == "workers"]:
            self.seq += 1
            self.send(sub, rows=[], gone=[fields["id"]], total=len(self.workers))
        return {}

    def _on_schedule(self, fields: dict[str, Any]) -> dict[str, Any]:
        row = next(row for row in self.schedules.values() if row["name"] == fields["name"])
        row["paused"] = {"pause": True, "resume": False}.get(fields["action"], row["paused"])
        self.push_topic("schedules")
        return row

    def _on_actions(self, fields: dict[str, Any]) -> dict[str, Any]:
        leads = {
            "cancel": "cancelled",
            "pause": "paused",
            "resume": "pending",
            "rerun": "pending",
            "resolve": "completed",
        }
        versions: dict[str, int] = {}
        problems: list[dict[str, str]] = []
        for key in fields["ids"]:
            task = self.tasks.get(key)
            wanted = (fields.get("if_versions") or {}).get(key)
            if task is None or (wanted is not None and task["version"] != wanted):
                problems.append({"id": key, "type": "/v1/problems/task-conflict", "detail": "it has changed since"})
                continue
            task["status"] = leads[fields["action"]]
            task["version"] += 1
            versions[key] = task["version"]
        self.push_topic("tasks")
        return {
            "action": fields["action"],
            "matched": len(fields["ids"]),
            "changed": len(versions),
            "versions": versions,
            "problems": problems,
        }

    def _on_action(self, fields: dict[str, Any]) -> dict[str, Any]:
        assert fields["action"] == "rerun", fields
        task = self.tasks[fields["id"]]
        if task["status"] not in {"completed", "failed", "cancelled"}:
            raise error_for(problem_named("invalid-task-transition", f"it is {task['status']}"))
        names = [step["step"] for step in self.steps.get(task["id"], [])]
        if (wanted := fields.get("from_step")) is not None and wanted not in names:
            raise error_for(problem_named("validation-error", f"from_step: the task has no step {wanted!r}"))
        task["status"] = "pending"
        task["version"] += 1
        self.push_topic("tasks")
        return task

    def _on_freeze(self, fields: dict[str, Any]) -> dict[str, Any]:
        rows = self.matching({"filter": fields["filter"]})
        names = ("id", "version", "status", "job_name")
        most = min(self.freezes, fields.get("limit", self.freezes))
        items = [{name: row[name] for name in names} for row in rows[:most]]
        return {"items": items, "is_capped": len(rows) > most, "at": self.clock.now().isoformat()}

    def _on_edit(self, fields: dict[str, Any]) -> dict[str, Any]:
        task = self.tasks[fields["id"]]
        if fields["if_version"] != task["version"]:
            raise error_for(problem_named("task-conflict", "it has changed since"))
        task.update({name: value for name, value in fields.items() if name not in {"id", "if_version"}})
        task["version"] += 1
        self.push_topic("tasks")
        return task

    def _on_steps(self, fields: dict[str, Any]) -> dict[str, Any]:
        steps = self.steps.get(fields["id"], [])
        return {"items": steps[fields["offset"] :], "total": len(steps)}

    def _on_send(self, fields: dict[str, Any]) -> dict[str, Any]:
        if self.tasks[fields["task_id"]]["status"] in {"completed", "failed", "cancelled"}:
            raise error_for(problem_named("invalid-task-transition", "it has ended, and takes no messages"))
        sent = {name: fields[name] for name in ("task_id", "name", "id")}
        return {**sent, "sent_at": self.clock.now().isoformat(), "sender": "mara", "received": False}

    def _on_submit(self, fields: dict[str, Any]) -> dict[str, Any]:
        made = []
        for one in fields["tasks"]:
            row = {
                **one,
                "job_name": one["job"],
                "room_id": fields["room"],
                "status": "pending",
                "version": 1,
                "created_at": self.clock.now().isoformat(),
                "scheduled_at": self.clock.now().isoformat(),
                "worker_id": None,
            }
            self.tasks[row["id"]] = row
            made.append(row)
        self.push_topic("tasks")
        return {"tasks": made}

    # Pushes.

    def happen(self, kind: str, *, at: str | None = None, **data: Any) -> None:
        """Let a transition happen, and tell it to whoever listens."""
        self.seq += 1
        event = {"seq": self.seq, "type": kind, "at": at or self.clock.now().isoformat(), **data}
        self.events.append(event)
        if self.hears_events and self.live:
            self._send_events([event])

    def _send_events(self, events: list[dict[str, Any]]) -> None:
        assert self._sink is not None
        if events:
            self._sink(Pushed({"push": "events", "stream": self.stream, "seq": self.seq, "events": events}))

    def rows(self, sub: dict[str, Any]) -> list[dict[str, Any]]:
        """The rows of a subscription, in order."""
        topic = sub["topic"]
        if topic == "counts":
            return [{"job": job["full_name"], "counts": job["counts"]} for job in self.jobs.values()]
        if topic == "task":
            return self._task_rows(sub["task_id"])
        if topic == "tasks":
            return self._window(sub["window"])
        if topic == "logs":
            return self._log_rows(sub["window"])
        return list(getattr(self, topic).values())

    def matching(self, window: dict[str, Any]) -> list[dict[str, Any]]:
        chosen = window.get("filter", {})
        return [
            task
            for task in self.tasks.values()
            if chosen.get("job") in {None, task["job_name"]}
            and (chosen.get("status") is None or task["status"] in chosen["status"])
            and (chosen.get("failure") is None or task["id"] in self.failing.get(chosen["failure"], ()))
            and chosen.get("flow") in {None, task.get("flow_id")}
            and chosen.get("error") in {None, task.get("reason")}
            and (chosen.get("worker") is None or task["worker_id"] == chosen["worker"])
        ]

    def _window(self, window: dict[str, Any]) -> list[dict[str, Any]]:
        start = self.ahead(window)
        return self.matching(window)[start : start + window["limit"]]

    def ahead(self, window: dict[str, Any]) -> int:
        """How many matching tasks stand before a window; it hangs on a task's place, as long as that is there."""
        keys = [task["id"] for task in self.matching(window)]
        for anchor, behind in (("first", 0), ("after", 1), ("before", -window["limit"])):
            if window.get(anchor) in keys:
                return max(0, keys.index(window[anchor]) + behind)
        return int(window.get("offset", 0))

    def _task_rows(self, key: str) -> list[dict[str, Any]]:
        if key not in self.tasks:
            return []
        told = {"runs": self.runs, "logs": self.logs, "events": self.histories, "artifacts": self.artifacts}
        return [{"id": key, "task": self.tasks[key], **{name: by.get(key, []) for name, by in told.items()}}]

    def _log_rows(self, window: dict[str, Any]) -> list[dict[str, Any]]:
        logged = [(row, self.logs.get(row["id"], [])) for row in self.matching(window)[:LOGGED_TASKS]]
        return [
            {**line, "id": f"{row['id']} {n}", "line": n, "task_id": row["id"], "job_name": row["job_name"]}
            for row, lines in logged
            for n, line in enumerate(lines)
        ]

    def _told(self, fields: dict[str, Any]) -> dict[str, Any]:
        """How many tasks stand before a window: it counts those before an anchor, and not all when they are many."""
        if fields["topic"] == "logs":
            return {"is_partial": len(self.matching(fields["window"])) > LOGGED_TASKS}
        if fields["topic"] != "tasks":
            return {}
        ahead, most = self.ahead(fields["window"]), self.counts_ahead_to
        is_capped = most is not None and ahead > most and bool(fields["window"].get("first"))
        return {"ahead": most if is_capped else ahead, "ahead_is_capped": is_capped}

    def push(self, sub: str) -> None:
        """Push a snapshot."""
        assert self._sink is not None
        fields = self.watched[sub]
        rows = self.rows(fields)
        total = len(rows)
        if fields["topic"] == "tasks":
            total = self.total if self.total is not None else len(self.matching(fields["window"]))
        self._sink(
            Pushed(
                {
                    "push": "snapshot",
                    "sub": sub,
                    "topic": fields["topic"],
                    "seq": self.seq,
                    "rows": rows,
                    "total": total,
                    "total_is_capped": self.capped,
                    "is_partial": self.partial and fields["topic"] == "tasks",
                    **self._told(fields),
                }
            )
        )

    def push_topic(self, topic: str) -> None:
        """Push the whole of a topic to whoever watches it, as a delta that changes everything."""
        assert self._sink is not None
        self.seq += 1
        for sub, fields in list(self.watched.items()):
            if fields["topic"] == topic:
                rows = self.rows(fields)
                self.send(
                    sub,
                    rows=rows,
                    order=[row["id"] for row in rows] if topic == "tasks" else None,
                    total=len(self.matching(fields["window"])) if topic == "tasks" else len(rows),
                    **self._told(fields),
                )

    def send(self, sub: str, *, rows: list[dict[str, Any]], order: list[str] | None = None, **more: Any) -> None:
        """Push a delta."""
        assert self._sink is not None
        topic = self.watched[sub]["topic"]
        push: dict[str, Any] = {"push": "delta", "sub": sub, "topic": topic, "seq": self.seq, "rows": rows, "gone": []}
        if order is not None:
            push["order"] = order
        self._sink(Pushed({**push, **more}))
