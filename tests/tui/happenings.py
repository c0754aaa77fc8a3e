"""Targets, transitions and troubles for the scenes, always the same."""

from itertools import zip_longest
from typing import Any

from tests.tui.mock import NOON, MockServer
from tests.tui.scene import BILLING, RDF, ROTATE, at, instant, storied_task, uuid


def holder(number: int, cause: str, *, since: float, until: float | None = None, **more: Any) -> dict[str, Any]:
    """What holds a target."""
    statuses = {"running": "running", "claimed": "claimed", "failed": "failed", "retry": "scheduled"}
    return {
        "task_id": uuid(number),
        "job_name": more.pop("job_name", ROTATE),
        "status": more.pop("status", statuses.get(cause, "paused")),
        "cause": cause,
        "run_id": 0,
        "worker_id": more.pop("worker_id", None),
        "since": at(since),
        "until": None if until is None else at(-until),
        **more,
    }


def target(
    number: int, name: str, *holders: dict[str, Any], waiting: int = 0, room: str = "room_42", **more: Any
) -> dict[str, Any]:
    """A target's row."""
    first = next(iter(holders), None)
    return {
        "id": str(number),
        "room_id": room,
        "name": name,
        "held": bool(holders),
        "cause": first and first["cause"],
        "since": first and first["since"],
        "until": first and first["until"],
        "holders": list(holders),
        "waiting": waiting,
        "next_task_id": uuid(3000 + number) if waiting else None,
        **more,
    }


def targets_are_held(server: MockServer) -> None:
    """Eight targets: running, paused, failed, stopping, between tries, claimed, and free with one that waits."""
    web, gpu = list(server.workers)[2], list(server.workers)[8]
    rows = [
        target(1, "cam-1", holder(1, "running", since=51, until=9, worker_id=web), waiting=4),
        target(2, "cam-2", holder(990, "paused", since=760), waiting=12),
        target(3, "cam-3", holder(991, "failed", since=200, job_name=RDF), waiting=1),
        target(4, "stage", holder(5, "stopping", since=7, until=53, worker_id=gpu), waiting=2, room="lab"),
        target(5, "lens", holder(6, "retry", since=20, until=9), room="lab"),
        target(6, "cam-4", holder(7, "claimed", since=1, until=59, worker_id=gpu), waiting=1),
        target(7, "cam-5", waiting=1),
        target(
            8,
            "printer",
            holder(8, "running", since=31, until=40, worker_id=web, job_name=BILLING),
            holder(9, "stopping", since=90, until=20, worker_id=gpu, job_name=BILLING),
        ),
    ]
    server.targets = {row["id"]: row for row in rows}


def schedule(number: int, name: str, *, due: float | None, status: str | None = None, **more: Any) -> dict[str, Any]:
    """A schedule's row; `due` is in how many seconds its next tick is."""
    task_id = None if status is None else uuid(100 + number)
    return {
        "id": str(number),
        "room_id": "room_42",
        "name": name,
        "job_name": ROTATE,
        "cron": None if "interval" in more else "*/5 * * * *",
        "zone": None if "interval" in more else "UTC",
        "next_at": None if due is None else at(-due),
        "last_at": None if task_id is None else at(280),
        "last_task_id": task_id,
        "last_status": status,
        "paused": False,
        "owner": "mia",
        "created_at": at(86_400),
        **more,
    }


def limit(number: int, name: str, *keys: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A limit's row; its use is that of its keys."""
    return {
        "id": str(number),
        "room_id": "@global",
        "name": name,
        "concurrency": None,
        "rate": None,
        "on_full": "wait",
        "used": sum(one.get("used", 0) for one in keys),
        "waiting": sum(one.get("waiting", 0) for one in keys),
        "keys": len(keys),
        "busiest": list(keys),
        "created_at": at(86_400),
        "version": 1,
        **more,
    }


def limits_are_full(server: MockServer) -> None:
    """Five limits: full for one of its customers, out of tokens, half used, both kinds at once, and never used."""
    rate = {"count": 100, "seconds": 60.0, "burst": 100}
    rows = [
        limit(
            1,
            "openai",
            {"key": "acme", "used": 5, "waiting": 1204, "tokens": 62.0, "tokens_at": at(0)},
            {"key": "umbrella", "used": 5, "waiting": 31, "tokens": 0.0, "tokens_at": at(0)},
            {"key": "Ødegård & søn", "used": 2, "tokens": 90.0, "tokens_at": at(60)},
            {"key": None, "used": 1, "tokens": 99.0, "tokens_at": at(0)},
            concurrency=5,
            rate=rate,
            keys=213,
            used=240,
            waiting=1311,
        ),
        limit(
            2,
            "mail",
            {"key": None, "waiting": 14, "tokens": 0.5, "tokens_at": at(0)},
            room_id="lab",
            rate={"count": 1, "seconds": 0.5, "burst": 10},
        ),
        limit(3, "gpu", {"key": None, "used": 6}, room_id="lab", concurrency=8, on_full="reject"),
        limit(4, "licences", {"key": None, "used": 3, "waiting": 2}, concurrency=3),
        limit(5, "quiet", room_id="lab", concurrency=1_000_000, rate=rate),
    ]
    server.limits = {row["id"]: row for row in rows}


def schedules_tick(server: MockServer) -> None:
    """Six schedules: one that waits for its last task, one that runs, two that wait, a new and a paused one."""
    rows = [
        schedule(1, "sync", due=-300, status="pending", room_id="lab", interval=30.0, job_name=BILLING),
        schedule(2, "rdf", due=20, status="running", job_name=RDF),
        schedule(3, "nightly", due=50_400, status="completed", cron="0 3 * * *", zone="Europe/Berlin"),
        schedule(4, "report", due=200_000, status="failed", cron="30 9 * * MON-FRI", zone="America/New_York"),
        schedule(5, "heartbeat", due=45, interval=60.0),
        schedule(6, "tidy", due=None, status="cancelled", paused=True, interval=3600.0),
    ]
    server.schedules = {row["id"]: row for row in rows}


def much_happens(server: MockServer) -> None:
    """Two minutes of a server's life, and a gap in what is known of them."""
    lives = [
        ("pending", None),
        ("claimed", "pending"),
        ("running", "claimed"),
        ("completed", "running"),
    ]
    workers = list(server.workers)
    for number in range(18):
        task = dict(list(server.tasks.values())[number % 26])
        for step, (status, was) in enumerate(lives):
            failed = number % 7 == 3 and status == "completed"
            told = {
                **task,
                "status": "failed" if failed else status,
                "worker_id": workers[number % 8] if step else None,
                "error": "ValueError: frame 3 has no cell" if failed else None,
                "job_name": RDF if number % 5 == 4 else ROTATE,
            }
            server.happen("task.updated", at=at(120 - number * 6 - step * 0.7), task=told, was=was)
    job, gone = list(server.jobs.values())[1], list(server.workers.values())[12]
    server.happen("job.updated", at=at(8), job=job, deleted=False)
    server.happen("worker.updated", at=at(5), worker=gone)


def things_go_wrong(server: MockServer) -> None:
    """A bit of everything that needs attention."""
    targets_are_held(server)
    schedules_tick(server)
    failing = list(server.jobs.values())[3]
    failing["history"] = {"step_seconds": 10, "completed": [20] * 30, "failed": [0] * 24 + [4] * 6}


def a_storied_task_with_much_in_it(server: MockServer) -> str:
    """The storied task with a payload that has to be folded."""
    key = storied_task(server)
    server.tasks[key]["payload"] = {
        "name": "Ünïcode 日本語",
        "angle": 90.5,
        "exact": True,
        "seed": 2**63,
        "nothing": None,
        "frames": [{"number": number, "file": f"frame-{number:04}.xyz"} for number in range(400)],
        "options": {"axis": [0, 0, 1], "cell": {"a": 1.0, "b": 2.0}},
    }
    server.tasks = {key: server.tasks[key]}
    return key


def hearts_beat(server: MockServer, _: object) -> None:
    """Half a minute of heartbeats; two of web-3's were lost on their way."""
    last = {key: row["last_heartbeat"] for key, row in server.workers.items()}
    for steps in range(12, -1, -1):
        for key, row in server.workers.items():
            quiet = (NOON - instant(last[key])).total_seconds()
            came = quiet + row["beat_seconds"] * steps
            if row["name"] in {"old-1", "gpu-3"} or (row["name"] == "web-3" and steps in {4, 5}):
                continue
            row["last_heartbeat"] = at(came)
        server.push_topic("workers")


CELL, CARD = "00000000000000ce", "00000000000000ca"
"""Groups of failures, by their ids."""


def _group(key: str, kind: str, place: str, **more: Any) -> dict[str, Any]:
    return {
        "id": key,
        "kind": kind,
        "place": place,
        "error": f"{kind}: it went wrong",
        "task_id": uuid(1),
        "jobs": [ROTATE],
        "runs": 7,
        "first_seen_at": at(7200),
        "last_seen_at": at(60),
        "per_minute": [0] * 50 + [1, 2, 3, 0, 0, 0, 4, 0, 0, 1],
        "failed": 3,
        "retrying": 2,
        **more,
    }


def tasks_have_failed(server: MockServer) -> None:
    """Two groups: three tasks stand failed by the one, of the other all are done with."""
    tasks = list(server.tasks.values())
    for task in tasks[:3]:
        task["status"] = "failed"
    for task in tasks[3:5]:
        task["status"] = "scheduled"
    next(job for job in server.jobs.values() if job["full_name"] == ROTATE)["retrying"] = 2
    server.failing = {CELL: [task["id"] for task in tasks[:5]], CARD: []}
    rows = [
        _group(CARD, "timeout", BILLING, jobs=[BILLING], failed=0, retrying=0, last_seen_at=at(5)),
        _group(CELL, "ValueError", "app/rotate.py in rotate"),
    ]
    server.failures = {row["id"]: row for row in rows}


FLOW = "019aa5c0-0000-7000-8000-00000000f10a"


def a_flow_is_under_way(server: MockServer) -> str:
    """Six rotations, what three measure of them, and a bill: one failed, and with it went what waits for it.

    Return the first one's id.
    """

    def task(number: int, name: str, status: str, *times: float, **more: Any) -> str:
        key = uuid(5000 + number)
        begun = dict(zip_longest(("started_at", "completed_at"), map(at, times)))
        more = {"id": key, "flow_id": FLOW, "status": status, **begun, **more}
        server.tasks[key] = {**next(iter(server.tasks.values())), "created_at": at(100), "job_name": name, **more}
        return key

    pages = [task(n, ROTATE, "completed", 95 - n, 93 - n * 4) for n in range(4)]
    pages.append(task(4, ROTATE, "failed", 80, 50, reason="timeout", error="timeout: a run took more than 30 s"))
    pages.append(task(5, ROTATE, "running", 12))
    measured = [
        task(6, RDF, "completed", 70, 41.6),
        task(7, RDF, "blocked", waits_for=1),
        task(8, RDF, "cancelled", reason="dependency-failed"),
    ]
    last = task(9, BILLING, "blocked", waits_for=2, on_dependency_failure="run")
    needs = [(measured[0], pages[:3]), (measured[1], [pages[3], pages[5]]), (measured[2], [pages[3], pages[4]])]
    edges = [(one, listed) for one, listed in needs] + [(last, measured)]
    server.flows[FLOW] = {
        "name": "movie",
        "tasks": [*pages, *measured, last],
        "edges": [{"task_id": one, "needs_id": key, "names": ["parts"]} for one, listed in edges for key in listed],
    }
    return pages[0]


def only_tasks_of_a_flow(server: MockServer) -> None:
    """The flow, and nothing else in the list of tasks."""
    a_flow_is_under_way(server)
    server.tasks = {key: server.tasks[key] for key in server.flows[FLOW]["tasks"]}


def only_a_task_that_waits_for_a_message(server: MockServer) -> str:
    """A task that has received a budget and waits to be approved, and nothing else in the list of tasks."""
    key = next(iter(server.tasks))
    row = {
        **server.tasks[key],
        "status": "scheduled",
        "reason": "suspended",
        "run_id": 1,
        "steps": 2,
        "worker_id": None,
    }
    server.tasks = {key: {**row, "created_at": at(300), "scheduled_at": at(-3600), "started_at": at(60)}}
    common = {"occurrence": 0, "kind": "receive", "until": at(-3600)}
    server.steps[key] = [
        {**common, "step": "budget", "run_id": 0, "at": at(250), "received_at": at(200), "result": 900},
        {**common, "step": "approved", "run_id": 1, "at": at(30)},
    ]
    server.histories[key] = [
        {"at": at(200), "kind": "step", "status": "receive", "step": "budget", "run_id": 0},
        {"at": at(30), "kind": "step", "status": "receive", "step": "approved", "run_id": 1},
    ]
    return key


def only_a_task_that_failed_behind_its_steps(server: MockServer) -> str:
    """A task that has planned, charged and planned again before it failed, and nothing else in the list of tasks."""
    key = next(iter(server.tasks))
    row = {**server.tasks[key], "status": "failed", "run_id": 0, "steps": 3, "worker_id": None, "error": "no parcel"}
    server.tasks = {key: {**row, "created_at": at(300), "started_at": at(280), "completed_at": at(200)}}
    kept = [("plan", 270, 0), ("charge", 250, 0), ("plan", 230, 1)]
    server.steps[key] = [
        {"step": name, "occurrence": times, "kind": "call", "run_id": 0, "at": at(ago)} for name, ago, times in kept
    ]
    server.histories[key] = [
        {"at": at(ago), "kind": "step", "status": "call", "step": name, "run_id": 0} for name, ago, _ in kept
    ]
    return key


def tasks_log(server: MockServer) -> None:
    """The tasks that run log what they do, each a line every few seconds."""
    running = [key for key, row in server.tasks.items() if row["status"] == "running"]
    for number, key in enumerate(running[:8]):
        server.logs[key] = [
            {
                "run_id": 0,
                "at": at(30 - number * 0.7 - step * 3),
                "level": "warning" if (number + step) % 7 == 3 else "info",
                "message": f"frame {step * 25} of 250" if (number + step) % 7 != 3 else "the lamp is dim, turned it up",
            }
            for step in range(9)
        ]
