"""Encodes what is sent to workers: claims, with what they carry, and the leases that a heartbeat renews."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Beaten
from treadle_server.operations.encode import bound_data, fragment, task_data
from treadle_server.store.read.dependencies import Depended, by_name


def carried_data(found: Sequence[Depended], *, is_left_out: bool) -> dict[str, Any]:
    """Return what a task waited for as its claim carries it: by name, with the results if they were read.

    `is_left_out` says that the results are too large for a claim.
    """
    told = [
        (
            one.places,
            {"id": one.id, "status": one.status}
            | ({"result": fragment(one.result)} if one.result is not None else {})
            | ({"error": one.error} if one.error is not None else {}),
        )
        for one in found
    ]
    return {"dependencies": by_name(told)} | ({"results_left_out": True} if is_left_out else {})


def claim_data(task: Task, now: datetime, credentials: str, carried: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a claimed task as `Claim`, with the temporary credentials of its run and what the claim `carried`."""
    data = task_data(task)
    data.update(carried or {})
    data["seconds_left"] = _seconds_left(task.taken_until, now)
    data["credentials"] = credentials
    data.update(task.trace_context)
    return data


def brief_claim(task: Task, now: datetime, carried: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a claimed task as `Claim` for the socket's pushes: fields that are null or a default are left out."""
    data: dict[str, Any] = {
        "id": task.id,
        "job_name": task.job_name,
        "room_id": task.room,
        "status": task.status,
        "run_id": task.run_id,
        "worker_id": task.worker_id,
        "created_at": task.created_at,
        "scheduled_at": task.due_at,
        "claimed_at": task.claimed_at,
        "taken_until": task.taken_until,
        "seconds_left": _seconds_left(task.taken_until, now),
        "heartbeat_increment": task.heartbeat_increment,
        "retry_count": task.retry_count,
        "requeue_count": task.requeue_count,
        "max_retries": task.max_retries,
        "payload": orjson.Fragment(task.payload),
    }
    for name in _RARE:
        if value := getattr(task, name):
            data[name] = value
    for name in _RARE_JSON:
        if (text := getattr(task, name)) is not None:
            data[name] = orjson.Fragment(text)
    if task.weight != 1:
        data["weight"] = task.weight
    if task.is_encrypted:
        data["encrypted"] = True
    if task.trace is not None:
        data.update(task.trace_context, trace_id=task.trace_id)
    if task.is_bound:
        data.update(bound_data(task))
    data.update(carried or {})
    return data


_RARE = ("priority", "timeout", "target", "budget", "usage", "deadline", "pool", "steps")
_RARE_JSON = ("tags", "checkpoint")


def _seconds_left(until: datetime | None, now: datetime) -> float:
    return max(0.0, (until - now).total_seconds()) if until is not None else 0.0


def taken_until_data(task_id: str, run_id: int, until: datetime | None, now: datetime) -> dict[str, Any]:
    """Return a run's lease as `TakenUntil`, with the seconds that are left at `now`."""
    seconds_left = _seconds_left(until, now)
    return {"task_id": task_id, "run_id": run_id, "taken_until": until, "seconds_left": seconds_left}


def runs_data(beaten: Beaten, now: datetime) -> dict[str, Any]:
    """Return which runs a worker is to stop, and until when it has the others: its leases, and its holds."""
    leases = [taken_until_data(task.id, task.run_id, task.taken_until, now) for task in beaten.taken_until]
    leases += [taken_until_data(hold.task_id, hold.run_id, hold.until, now) for hold in beaten.holds]
    told = {"cancel": beaten.cancel, "pause": beaten.pause, "gone": beaten.gone}
    return {"taken_until": leases, **{name: run_names(runs) for name, runs in told.items()}}


def run_names(keys: Iterable[tuple[str, int]]) -> list[dict[str, Any]]:
    """Return runs as `RunName`."""
    return [{"task_id": task_id, "run_id": run_id} for task_id, run_id in keys]
