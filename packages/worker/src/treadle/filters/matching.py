"""Whether a filter matches a task in the form of the wire."""

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from treadle.wire import tags
from treadle.wire.filters import TIMES, TaskFilter, has_error
from treadle.wire.ids import begins

WorkerNames = Mapping[str, str | None]
"""The names of workers by their ids."""

_COLUMNS = {"job": "job_name", "room": "room_id", "target": "target"}


def matches(task_filter: TaskFilter, task: Mapping[str, Any], *, workers: WorkerNames | None = None) -> bool:
    """Return whether the filter matches a task; fields that were not sent contain no text, and no time.

    `workers` has the workers' names; without it they are only known by their ids.
    """
    if task_filter.status is not None and task["status"] not in task_filter.status:
        return False
    for column, part in (("id", task_filter.id), ("flow_id", task_filter.flow)):
        if part is not None and not begins(task.get(column) or "", part):
            return False
    return (
        all(_is_among_its_own(task_filter, task, workers or {}))
        and _has_tags(task_filter, task)
        and all(_is_its_error(task_filter, task))
        and all(_is_of_its_time(task_filter, task))
        and _holds(task_filter.text or "", task)
    )


def _is_among_its_own(task_filter: TaskFilter, task: Mapping[str, Any], workers: WorkerNames) -> Iterator[bool]:
    for key, column in _COLUMNS.items():
        value, wanted = task.get(column), getattr(task_filter, key)
        yield wanted is None or value == wanted
        yield value not in (getattr(task_filter, f"not_{key}") or ())
    worker = task.get("worker_id")
    called = {worker, workers.get(worker)} - {None} if worker is not None else set()
    yield task_filter.worker is None or task_filter.worker in called
    yield called.isdisjoint(task_filter.not_worker or ())


def _has_tags(task_filter: TaskFilter, task: Mapping[str, Any]) -> bool:
    having = task.get("tags")
    return all(tags.has(having, wanted) for wanted in task_filter.tag or ()) and not any(
        tags.has(having, unwanted) for unwanted in task_filter.not_tag or ()
    )


def _is_its_error(task_filter: TaskFilter, task: Mapping[str, Any]) -> Iterator[bool]:
    yield task_filter.error is None or has_error(task_filter.error, task.get("error"), task.get("reason"))
    for unwanted in task_filter.not_error or ():
        yield not has_error(unwanted, task.get("error"), task.get("reason"))
    # Only the server knows which group a failure belongs to.
    yield task_filter.failure is None


def _is_of_its_time(task_filter: TaskFilter, task: Mapping[str, Any]) -> Iterator[bool]:
    at = {key: _moment(task.get(column)) for key, column in TIMES.items()}
    for key, moment in at.items():
        since, until = getattr(task_filter, f"{key}_from"), getattr(task_filter, f"{key}_until")
        yield since is None or (moment is not None and moment >= since)
        yield until is None or (moment is not None and moment < until)
    run = task.get("run_id")
    tries = 0 if run is None else run + 1
    yield task_filter.least_tries is None or tries >= task_filter.least_tries
    yield task_filter.most_tries is None or tries <= task_filter.most_tries
    took = at["ended"] - at["started"] if at["ended"] is not None and at["started"] is not None else None
    least, most = task_filter.least_seconds, task_filter.most_seconds
    yield least is None or (took is not None and took >= timedelta(seconds=least))
    yield most is None or (took is not None and took <= timedelta(seconds=most))


def _moment(value: Any) -> datetime | None:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _holds(text: str, task: Mapping[str, Any]) -> bool:
    sought = text.casefold()
    payload = json.dumps(task.get("payload") or {}, ensure_ascii=False)
    return any(
        sought in str(part or "").casefold() for part in (task["id"], task["job_name"], task.get("error"), payload)
    )
