"""The scene of the drawing: six queues, thirteen workers, and a few thousand tasks, always the same.

The screens that are made from it, and how to add one, stand in scenes.py.
"""

import math
from datetime import datetime, timedelta
from typing import Any

from tests.tui.mock import NOON, FrozenClock, MockServer

ROTATE = "@global:modifiers:Rotate"
RDF = "room_42:analysis:RDF"
BILLING = "@global:tasks:billing"
TRACEBACK = """Traceback (most recent call last):
  File "rotate.py", line 12, in rotate
    cell = frame.cell
ValueError: frame 3 has no cell"""


def at(seconds_ago: float) -> str:
    """An instant before noon, as the wire has it."""
    return (NOON - timedelta(seconds=seconds_ago)).isoformat()


def uuid(number: int) -> str:
    """A UUID that looks like one and is the same each time."""
    tail = (number * 0x9E3779B1) & 0xFFFFFFFF
    return f"019aa5c0-0000-7000-8000-0000{tail:08x}"


def job(
    name: str,
    number: int,
    *,
    counts: dict[str, int],
    wave: float,
    oldest: float | None,
    workers: list[str],
    **more: Any,
) -> dict[str, Any]:
    """A job's row; `wave` is the height of its history."""
    room, category, short = name.split(":", 2)
    ran = {"n": 900, "p50": 8.0, "p90": 45.0, "p95": 52.0, "p99": 70.0, "mean": 15.0} if wave else {}
    completed = [round(wave * (1 + math.sin(step / 4.5 + number)) / 2) for step in range(30)]
    return {
        "id": uuid(10_000 + number),
        "room_id": room,
        "category": category,
        "name": short,
        "full_name": name,
        "schema": {},
        "workers": workers,
        "slots": 4 * len(workers),
        "counts": counts,
        "oldest_pending_at": None if oldest is None else at(oldest),
        "history": {"step_seconds": 10, "completed": completed, "failed": [step % 7 == 3 for step in range(30)]},
        "past": [_past(60, 60, wave * 6, number), _past(1800, 48, wave * 180, number)],
        "stats": {
            "since": at(86_400),
            "wait": {"n": 900, "p50": 20.0, "p90": 41.0, "p95": 48.0, "p99": 60.0, "mean": 22.0},
            "run": ran,
            "completed_run": ran,
            "failed_last_hour": counts.get("failed", 0),
        },
        "created_at": at(86_400 * 3),
        **more,
    }


def _past(step: int, steps: int, wave: float, number: int) -> dict[str, Any]:
    completed = [round(wave * (1 + math.cos(at / 7 + number)) / 2) for at in range(steps)]
    return {"step_seconds": step, "completed": completed, "failed": [at % 11 == 5 for at in range(steps)]}


def worker(
    name: str, number: int, *, quiet: float, running: list[str], concurrency: int = 8, **more: Any
) -> dict[str, Any]:
    """A worker's row."""
    return {
        "id": uuid(20_000 + number),
        "name": name,
        "group": more.pop("group", None),
        "pool": more.pop("pool", None),
        "version": "0.1.0",
        "state": more.pop("state", "online"),
        "concurrency": concurrency,
        "last_heartbeat": at(quiet),
        "created_at": at(7200 + number * 600),
        "jobs": [],
        "job_count": 2,
        "running": [
            {"task_id": key, "run_id": 0, "job_name": ROTATE, "since": at(51 - number * 7 - place)}
            for place, key in enumerate(running)
        ],
        "running_count": len(running),
        "beat_seconds": 2 if running else 15,
        "used": len(running),
        **more,
    }


def task(number: int, name: str = ROTATE, *, status: str = "pending", age: float = 48, **more: Any) -> dict[str, Any]:
    """A task's row."""
    return {
        "id": uuid(number),
        "job_name": name,
        "room_id": "room_42",
        "status": status,
        "payload": {"angle": (number * 15) % 360},
        "max_retries": 3,
        "max_requeues": 5,
        "created_at": at(age),
        "scheduled_at": at(age),
        "worker_id": None,
        "version": 1,
        **more,
    }


def scene(clock: FrozenClock) -> MockServer:
    """A server that holds the scene."""
    server = MockServer(clock)
    _add_tasks(server)
    busy = [key for key, row in server.tasks.items() if row["status"] == "running"]
    _add_workers(server, busy)
    _add_jobs(server)
    return server


def _add_workers(server: MockServer, busy: list[str]) -> None:
    for number in range(8):
        row = worker(
            f"web-{number}", number, quiet=0.4 + number / 5, running=busy[number * 3 : number * 3 + 3], pool="cpu"
        )
        server.workers[row["id"]] = row
    extra = [
        worker("gpu-1", 8, quiet=1.1, running=busy[24:25], pool="gpu", group="lab", concurrency=4),
        worker("gpu-2", 9, quiet=9.0, running=[], pool="gpu", group="lab", concurrency=4),
        worker("gpu-3", 10, quiet=34.0, running=busy[25:26], pool="gpu", group="lab", concurrency=4),
        worker("cron-1", 11, quiet=3.0, running=[], concurrency=2),
        worker("old-1", 12, quiet=400.0, running=[], state="lost"),
    ]
    server.workers.update((row["id"], row) for row in extra)
    for number, key in enumerate(busy):
        server.tasks[key]["worker_id"] = list(server.workers)[number // 3 % 8]


def _add_jobs(server: MockServer) -> None:
    workers = list(server.workers)
    rows = [
        job(
            ROTATE,
            1,
            counts={"pending": 812, "running": 26, "scheduled": 14, "completed": 8540, "failed": 25},
            wave=310,
            oldest=48,
            workers=workers[:8],
        ),
        job(
            RDF,
            2,
            counts={"pending": 74, "scheduled": 2, "paused": 3},
            wave=12,
            oldest=760,
            workers=workers[8:10],
            paused=True,
        ),
        job(BILLING, 3, counts={"pending": 17, "paused": 9, "failed": 22}, wave=4, oldest=130, workers=workers[12:]),
        job("@global:modifiers:Delete", 4, counts={"completed": 1211}, wave=41, oldest=None, workers=workers[:8]),
        job("@internal:tasks:sweep", 5, counts={"pending": 1, "running": 2}, wave=6, oldest=2, workers=[]),
        job(
            "room_42:selections:Neighbours",
            6,
            counts={"pending": 300, "running": 20},
            wave=90,
            oldest=5,
            workers=workers[:2],
        ),
    ]
    server.jobs.update((row["id"], row) for row in rows)


def _add_tasks(server: MockServer) -> None:
    rows = [
        task(
            number,
            status="running",
            age=62 - number,
            run_id=0,
            claimed_at=at(52),
            started_at=at(51 - number),
            progress={"share": ((number * 37) % 100) / 100},
            target=f"cam-{number}" if number % 5 == 4 else None,
        )
        for number in range(1, 27)
    ]
    rows.append(
        task(40, status="scheduled", age=200, run_id=2, retry_count=3, next_retry_at=at(-9), payload={"angle": 12})
    )
    rows += [
        task(
            100 + position,
            age=48 - position * 0.05,
            queue_position=position,
            target=f"cam-{position}" if position < 3 else None,
            payload={"angle": 45 + position, "axis": "z"},
        )
        for position in range(1, 801)
    ]
    rows.append(task(990, status="paused", age=48, run_id=0, target="cam-2", payload={"angle": 46}))
    rows.append(
        task(
            991,
            status="failed",
            age=300,
            run_id=3,
            retry_count=3,
            error="ValueError: angle must be below 360",
            completed_at=at(200),
        )
    )
    rows += [task(2000 + number, RDF, age=760 - number, queue_position=number + 1) for number in range(74)]
    server.tasks.update((row["id"], row) for row in rows)


def storied_task(server: MockServer) -> str:
    """Add a task with three runs, a traceback, a checkpoint, logs and artifacts; return its id."""
    row = task(
        7777,
        status="running",
        age=95,
        run_id=2,
        retry_count=1,
        requeue_count=1,
        started_at=at(21),
        priority=5,
        target="cam-1",
        tags={"order": "A-17", "who": "mia"},
        submitter="mia",
        timeout=120.0,
        payload={"angle": 90, "axis": [0, 0, 1], "frames": {"first": 0, "last": 250, "step": 5}},
        progress={"share": 0.74, "message": "frame 185 of 250"},
        checkpoint={"frame": 150},
        error="ValueError: frame 3 has no cell",
    )
    key = row["id"]
    server.tasks[key] = row
    web, gpu = (next(w["id"] for w in server.workers.values() if w["name"] == name) for name in ("web-2", "gpu-1"))
    server.runs[key] = [
        {
            "task_id": key,
            "run_id": 0,
            "status": "failed",
            "reason": "error",
            "error": "ValueError: frame 3 has no cell",
            "traceback": TRACEBACK,
            "worker_id": web,
            "worker_name": "web-2",
            "claimed_at": at(93),
            "started_at": at(92.5),
            "ended_at": at(80),
        },
        {
            "task_id": key,
            "run_id": 1,
            "status": "exception",
            "reason": "worker-shutdown",
            "worker_id": gpu,
            "worker_name": "lab/gpu-1",
            "claimed_at": at(75),
            "started_at": at(74),
            "ended_at": at(40),
        },
        {
            "task_id": key,
            "run_id": 2,
            "status": "running",
            "worker_id": web,
            "worker_name": "web-2",
            "claimed_at": at(22),
            "started_at": at(21),
        },
    ]
    server.logs[key] = [
        {
            "run_id": 2,
            "at": at(20 - step),
            "level": "warning" if step % 6 == 5 else "info",
            "message": f"frame {150 + step * 2} turned",
        }
        for step in range(18)
    ]
    server.histories[key] = _history(server.tasks[key], server.runs[key])
    server.artifacts[key] = [
        {"name": name, "run_id": run, "content_type": "application/octet-stream", "size": size, "created_at": at(30)}
        for name, run, size in (("frames/0150.npz", 2, 204_800_000), ("preview.png", 2, 84_212), ("log.txt", 0, 812))
    ]
    return key


def _history(row: dict[str, Any], runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What happened to a task, as its row and its runs tell it."""
    told = [{"at": row["created_at"], "kind": "created"}]
    for run in runs:
        who = {"run_id": run["run_id"], "worker_id": run["worker_id"], "worker_name": run["worker_name"]}
        told.append({"at": run["claimed_at"], "kind": "claimed", **who})
        told.append({"at": run["started_at"], "kind": "started", **who})
        if "ended_at" in run:
            why = {name: run.get(name) for name in ("status", "reason", "error")}
            told.append({"at": run["ended_at"], "kind": "ended", "run_id": run["run_id"], **why})
    return told


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
