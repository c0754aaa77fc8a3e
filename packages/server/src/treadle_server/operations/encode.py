"""Encodes domain objects for the wire as dicts for orjson; JSON that is stored as text is passed through untouched."""

from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cache
from operator import attrgetter
from typing import Any

import orjson

from treadle.wire.artifacts import ArtifactItem
from treadle.wire.fields import Model
from treadle.wire.ids import WorkerId
from treadle.wire.options import ShownOptions
from treadle.wire.runs import LogItem
from treadle.wire.targets import TargetHolder
from treadle.wire.tasks import RunItem, TaskEvent
from treadle_server.access.checks import is_reader
from treadle_server.access.principal import Principal
from treadle_server.domain.artifacts import Artifact
from treadle_server.domain.failures import key_text
from treadle_server.domain.jobs import Job
from treadle_server.domain.limits import own_of
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.steps import Step
from treadle_server.domain.tasks import NEVER_RUN, Task
from treadle_server.engine.commands import Submitted
from treadle_server.store.read.failures import MOST_JOBS, FailureGroup
from treadle_server.store.read.history import Happening
from treadle_server.store.read.jobs import JobView
from treadle_server.store.read.limit_keys import LimitView
from treadle_server.store.read.logs import LoggedTask, LogRow
from treadle_server.store.read.runs import RunView
from treadle_server.store.read.schedules import ScheduleView
from treadle_server.store.read.schedules import left_out as schedule_left_out
from treadle_server.store.read.shown import MOST_SHOWN, left_out
from treadle_server.store.read.targets import Blocked, TargetView
from treadle_server.store.read.tasks import Seen

_OPTIONS = orjson.OPT_UTC_Z


def dumps(value: Any) -> bytes:
    """Return the value as JSON bytes; instants end in Z."""
    return orjson.dumps(value, option=_OPTIONS)


def fragment(text: str | None) -> orjson.Fragment | None:
    """Return JSON that is stored as text so that an answer includes it as it is."""
    return None if text is None else orjson.Fragment(text)


_SHOWN = tuple(name for name in ShownOptions.model_fields if name not in {"tags", "scopes", "limits"})
"""The options that are shown as they are stored; the others are stored as text."""

_shown = attrgetter(*_SHOWN)


@cache
def _fields(model: type[Model]) -> tuple[str, ...]:
    return tuple(model.model_fields)


def _as(model: type[Model], view: object) -> dict[str, Any]:
    """Return the fields of a wire model from an object that has them under the same names."""
    return {name: getattr(view, name) for name in _fields(model)}


def light_task(task: Task) -> dict[str, Any]:
    """Return the task without payload, result and checkpoint, which may be large."""
    data = {
        "id": task.id,
        "job_name": task.job_name,
        "room_id": task.room,
        "status": task.status,
        "error": task.error,
        "reason": task.reason,
        "run_id": None if task.run_id == NEVER_RUN else task.run_id,
        "retry_count": task.retry_count,
        "requeue_count": task.requeue_count,
        "next_retry_at": task.next_retry_at,
        "created_at": task.created_at,
        "scheduled_at": task.due_at,
        "claimed_at": task.claimed_at,
        "started_at": task.started_at,
        "completed_at": task.completed_at,
        "deadline": task.deadline,
        "worker_id": task.worker_id,
        "taken_until": task.taken_until,
        "tags": fragment(task.tags),
        "scopes": fragment(task.scopes),
        "limits": own_of(task.limits) or None,
        "counts_against": fragment(task.limits),
        "usage": task.usage,
        "progress": fragment(task.progress),
        "submitter": task.submitter,
        "trace_id": task.trace_id,
        "cancel_requested": task.cancel_requested,
        "settled": task.settled,
        "encrypted": task.is_encrypted,
        "steps": task.steps,
        "version": task.version,
    }
    data.update(zip(_SHOWN, _shown(task), strict=True))
    if task.is_bound:
        data.update(bound_data(task))
    return data


def bound_data(task: Task) -> dict[str, Any]:
    """Return the fields that only tasks of a flow, and tasks that wait for others, have."""
    return {
        "flow_id": task.flow_id,
        "waits_for": task.unmet,
        "on_dependency_failure": task.on_dependency_failure,
        "arguments_from": fragment(task.arguments_from),
    }


def task_data(task: Task, position: int | None = None, blocked: Blocked | None = None) -> dict[str, Any]:
    """Return the task as `TaskItem`; `position` is its place in the queue from 1 on, None if it has none."""
    data = light_task(task)
    data["payload"] = orjson.Fragment(task.payload)
    data["result"] = fragment(task.result)
    data["checkpoint"] = fragment(task.checkpoint)
    data["queue_position"] = position
    data["blocked_by"] = None if blocked is None else blocked.by
    if blocked is not None and blocked.limit_opens_at is not None:
        data["limit_opens_at"] = blocked.limit_opens_at
    return data


def listed_data(task: Task, position: int | None = None, blocked: Blocked | None = None) -> dict[str, Any]:
    """Return the task as `TaskItem` for a window: large values are left out, and their names listed."""
    data = task_data(task, position, blocked)
    if not (names := left_out(task)):
        return data
    data["left_out"] = names
    for name in names:
        data[name] = {} if name == "payload" else None
    if "error" in names and task.error is not None and not task.is_encrypted:
        data["error"] = task.error[:MOST_SHOWN]
    return data


def receipt_data(submitted: Submitted) -> dict[str, Any]:
    """Return a submitted task as `Receipt`: what its submitter needs to know."""
    task = submitted.task
    return {
        "id": task.id,
        "job_name": task.job_name,
        "room_id": task.room,
        "status": task.status,
        "created": submitted.created,
        "queue_position": submitted.position,
        "scheduled_at": task.due_at,
        "version": task.version,
    }


def seen_data(seen: Seen) -> dict[str, Any]:
    """Return a task that was read with its position, as `TaskItem`."""
    return task_data(seen.task, seen.position, seen.blocked)


def job_data(
    view: JobView, worker_id: WorkerId | None = None, measured: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the job as `JobItem`; `measured` is what the server has measured of its rates."""
    data = plain_job(view.job)
    data["workers"] = view.workers
    data["worker_id"] = worker_id
    data["counts"] = view.counts
    data["retrying"] = view.retrying
    data["oldest_pending_at"] = view.oldest_pending_at
    data["oldest_pending_of_pools"] = view.oldest_pending_of_pools
    data["slots"] = view.slots
    data |= measured or {"history": None, "past": None, "stats": None}
    return data


def plain_job(job: Job) -> dict[str, Any]:
    """Return the job as `JobItem`, without the counts and workers, which take a read."""
    return {
        "id": job.id,
        "room_id": job.room,
        "category": job.category,
        "name": job.name,
        "full_name": job.full_name,
        "schema": orjson.Fragment(job.schema),
        "schema_": orjson.Fragment(job.schema),
        "schema_version": job.schema_version,
        "defaults": orjson.Fragment(job.defaults),
        "retain": job.retain,
        "fair": job.fair,
        "origin": job.origin,
        "encrypted": job.encrypted,
        "paused": job.paused,
        "created_at": job.created_at,
        "version": job.version,
    }


def step_data(step: Step) -> dict[str, Any]:
    """Return the step as `StepItem`."""
    return {
        "step": step.name,
        "occurrence": step.occurrence,
        "kind": step.kind,
        "function": step.function,
        "run_id": step.run_id,
        "result": fragment(step.result),
        "at": step.at,
        "seconds": step.seconds,
        "until": step.until,
        "received_at": step.received_at,
    }


def run_data(view: RunView) -> dict[str, Any]:
    """Return the run as `RunItem`."""
    data = _as(RunItem, view)
    if view.left_out is None:
        del data["left_out"]
    return data


def happening_data(one: Happening) -> dict[str, Any]:
    """Return an event of a task's history as `TaskEvent`."""
    return _as(TaskEvent, one)


def log_data(view: LogRow) -> dict[str, Any]:
    """Return the line as `LogItem`."""
    return _as(LogItem, view)


def logged_data(key: str, task: LoggedTask, line: LogRow) -> dict[str, Any]:
    """Return the line as `TaskLogItem`, with the id `key`."""
    of_task = {"id": key, "line": line.line, "task_id": task.id, "job_name": task.job_name}
    return {**of_task, **_as(LogItem, line)}


def target_data(view: TargetView) -> dict[str, Any]:
    """Return the target as `TargetItem`."""
    first = view.holders[0] if view.holders else None
    ends = [holder.until for holder in view.holders]
    return {
        "id": str(view.num),
        "room_id": view.room,
        "name": view.name,
        "held": first is not None,
        "cause": None if first is None else first.cause,
        "since": None if first is None else first.since,
        "until": None if None in ends else max((end for end in ends if end is not None), default=None),
        "holders": [_as(TargetHolder, holder) for holder in view.holders],
        "waiting": view.waiting,
        "next_task_id": view.next_task_id,
    }


def limit_data(view: LimitView) -> dict[str, Any]:
    """Return the limit as `LimitItem`."""
    limit = view.limit
    rate = {"count": limit.rate_count, "seconds": limit.rate_seconds, "burst": limit.rate_burst}
    return {
        "id": str(limit.num),
        "room_id": limit.room,
        "name": limit.name,
        "concurrency": limit.concurrency,
        "rate": None if limit.rate_count is None else rate,
        "on_full": limit.on_full,
        "used": view.used,
        "waiting": view.waiting,
        "waiting_is_capped": view.is_capped,
        "keys": len(view.buckets),
        "busiest": [asdict(one) for one in view.busiest],
        "created_at": limit.created_at,
        "version": limit.version,
    }


def schedule_data(view: ScheduleView) -> dict[str, Any]:
    """Return the schedule as `ScheduleItem`."""
    data = plain_schedule(view.schedule)
    data["job_name"] = view.job_name
    data["last_status"] = view.last_status
    data["stands_still"] = view.stands_still
    return data


def listed_schedule_data(view: ScheduleView) -> dict[str, Any]:
    """Return the schedule as `ScheduleItem` for a list: large values are left out, and their names listed."""
    names = schedule_left_out(view.schedule)
    if not names:
        return schedule_data(view)
    read = view.schedule
    payload = "{}" if "payload" in names else read.payload
    template = "{}" if "options" in names else read.template
    shown = replace(view, schedule=replace(read, payload=payload, template=template))
    return {**schedule_data(shown), "left_out": names}


def plain_schedule(schedule: Schedule) -> dict[str, Any]:
    """Return the schedule as `ScheduleItem`, without its job's name and its last task's status, which take a read."""
    return {
        "id": schedule.id,
        "room_id": schedule.room,
        "name": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "interval": schedule.interval_seconds,
        "jitter": schedule.jitter_seconds,
        "missed": schedule.missed,
        "paused": schedule.paused,
        "payload": orjson.Fragment(schedule.payload),
        "options": orjson.Fragment(schedule.template),
        "next_at": None if schedule.paused else schedule.next_at,
        "last_at": schedule.last_at,
        "last_task_id": schedule.last_task_id,
        "skipped_at": schedule.skipped_at,
        "skipped_for": schedule.skipped_for,
        "skipped_why": schedule.skipped_why,
        "owner": schedule.owner,
        "content_hash": schedule.content_hash,
        "created_at": schedule.created_at,
        "version": schedule.version,
    }


def artifact_data(artifact: Artifact) -> dict[str, Any]:
    """Return a stored artifact as `ArtifactItem`."""
    return _as(ArtifactItem, artifact) | {"sha256": None if artifact.sha256 is None else artifact.sha256.hex()}


def page_data(
    items: list[dict[str, Any]], total: int, limit: int, offset: int, *, capped: bool = False, cursor: str | None = None
) -> dict[str, Any]:
    """Return a part of a list as `Page`: up to `limit` items after the first `offset`.

    `total` is the length of the whole list, or at least that if it is `capped`; `cursor` leads to the next part.
    """
    return {
        "items": items,
        "total": total,
        "total_is_capped": capped,
        "limit": limit,
        "offset": offset,
        "next_cursor": cursor,
    }


def whoami_data(who: Principal) -> dict[str, Any]:
    """Return the principal as `Whoami`."""
    scopes = ["*"] if who.superuser else sorted(who.scopes or ())
    return {
        "user": who.user,
        "superuser": who.superuser,
        "scopes": scopes,
        "may_write": not is_reader(who),
        "expires_at": who.expires_at,
    }


LONGEST_ERROR = 1_000
"""The most characters of an error that a group shows; the task has all of it."""


def group_data(group: FailureGroup) -> dict[str, Any]:
    """Return the group as `FailureGroup`."""
    return {
        "id": key_text(group.key),
        "kind": group.kind,
        "place": group.place,
        "error": None if group.error is None else group.error[:LONGEST_ERROR],
        "task_id": group.task_id,
        "jobs": [name for name, _ in group.jobs.most_common(MOST_JOBS)],
        "runs": group.runs,
        "first_seen_at": group.first_at,
        "last_seen_at": group.last_at,
        "per_minute": group.minutes,
        "failed": group.failed,
        "retrying": group.retrying,
    }
