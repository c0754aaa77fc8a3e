"""Encodes workers, with the runs that they hold and how often they have to send heartbeats."""

from datetime import datetime
from typing import Any

from treadle.wire.workers import beat_every
from treadle_server.domain.jobs import Worker
from treadle_server.engine.commands import Beaten
from treadle_server.operations.encode_claims import run_names, runs_data
from treadle_server.store.read.workers import WorkerView


def plain_worker(worker: Worker, now: datetime) -> dict[str, Any]:
    """Return the worker as `WorkerItem`, without its jobs' names and the runs that it holds, which take a read."""
    return {
        "id": worker.id,
        "name": worker.name,
        "group": worker.group,
        "pool": worker.pool,
        "version": worker.version,
        "state": worker.state,
        "concurrency": worker.concurrency,
        "min_concurrency": worker.min_concurrency,
        "last_heartbeat": worker.last_heartbeat,
        "heartbeat_age": max(0.0, (now - worker.last_heartbeat).total_seconds()),
        "created_at": worker.created_at,
        "job_count": len(worker.jobs),
        "owner": worker.owner,
    }


def beats_data(worker: Worker, lost_after: float, *, is_busy: bool) -> dict[str, Any]:
    """Return how often a worker has to send heartbeats if it is lost after `lost_after` seconds without one."""
    return {
        "beat_seconds": beat_every(lost_after, is_busy=is_busy or worker.owes_for_lost),
        "idle_beat_seconds": beat_every(lost_after, is_busy=False),
        "lost_after_seconds": lost_after,
    }


def worker_data(view: WorkerView, now: datetime, lost_after: float, away_since: datetime | None) -> dict[str, Any]:
    """Return the worker as `WorkerItem`; it is lost after `lost_after` seconds without a heartbeat."""
    data = plain_worker(view.worker, now)
    data["away_since"] = away_since
    data["jobs"] = view.jobs
    data["job_count"] = len(view.jobs)
    data["running"] = [run._asdict() for run in view.running]
    data["running_count"] = view.running_count
    data["used"] = view.used
    # Runs that are stopping need heartbeats too.
    return data | beats_data(view.worker, lost_after, is_busy=bool(view.used))


def beaten_data(beaten: Beaten, now: datetime, lost_after: float) -> dict[str, Any]:
    """Return the answer to a heartbeat as `HeartbeatAnswer`.

    This is the most common answer, so the names of the jobs are left out, which would take a read.
    """
    data = plain_worker(beaten.worker, now) | runs_data(beaten, now)
    data["running"] = run_names((task.id, task.run_id) for task in beaten.taken_until)
    data["used"] = sum(task.weight for task in beaten.taken_until)
    return data | beats_data(beaten.worker, lost_after, is_busy=bool(data["taken_until"]))
