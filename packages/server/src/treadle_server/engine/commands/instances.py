"""The instances of schedules: the tasks that schedules make, and what follows when one ends.

At most one instance of a schedule is open. The next one is made in the transaction that ends it if a tick has come
meanwhile, and otherwise by the scheduler when the tick comes. The database records the task of each tick, and admits no
second one. See docs/decisions/0012.
"""

from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import orjson
from pydantic_core import from_json, to_json
from uuid_utils import uuid7

from treadle_server.domain.admission import Wanted
from treadle_server.domain.flows import Flow
from treadle_server.domain.limits import Named
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands.submit import Submission, crowd_in, holder_of, make_task
from treadle_server.engine.naming import admit, limits_of
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import LimitFull, LimitNotFound, ValidationFailed

TAG = "schedule"
"""The tag by which a schedule's tasks are found, unless its template gives a tag of this name."""


MOST_WHY = 1000
"""How many characters are kept of the reason why a tick was skipped."""

LOOK_AGAIN = timedelta(minutes=1)
"""After how long a schedule in an unknown time zone is tried again."""


def options_of(schedule: Schedule) -> dict[str, Any]:
    """Return the options of the schedule's tasks, named as in a submit; the deadline is in seconds."""
    # orjson would turn an integer beyond 64 bits, as a tag may have, into a float.
    found: dict[str, Any] = from_json(schedule.template)
    return found


def has_open_instance(work: UnitOfWork, schedule: Schedule) -> bool:
    """Return whether the schedule's last instance is open now."""
    last = schedule.last_task_id
    if last is None:
        return False
    task = work.tasks.get(last)
    return last in work.open_instances if task is None else task.completed_at is None


def key_holder(work: UnitOfWork, schedule: Schedule) -> Task | None:
    """Return the open task that holds the unique key of the schedule's next task, if there is one."""
    key = options_of(schedule).get("unique_key")
    return None if key is None else holder_of(work, schedule.job_num, key)


def make_instance(work: UnitOfWork, schedule: Schedule, tick: datetime | None, *, last: datetime | None = None) -> Task:
    """Add the schedule's task for a tick, or by hand (None), when it is due at once and no tick is used up.

    Its deadline counts from `last`, the last of the ticks that it stands for, or from now if it is made by hand.

    Raises `LimitNotFound`, `LimitFull`, or `ValidationFailed` for invalid limits.
    """
    options = options_of(schedule)
    target, tags, scopes, unique_key, limits, seconds, flow_name = (
        options.pop(name, None)
        for name in ("target", "tags", "scopes", "unique_key", "limits", "deadline", "flow_name")
    )
    job = work.jobs_by_num[schedule.job_num]
    item = Submission(
        job_name=job.full_name,
        payload=schedule.payload,
        content_hash=sha256(f"{schedule.id} {tick}".encode()).digest(),
        options=options,
        due_at=None if tick is None else tick + timedelta(seconds=schedule.jitter_seconds * work.draw()),
        target=target,
        deadline=None if seconds is None else (last or work.now) + timedelta(seconds=seconds),
        tags=to_json({TAG: schedule.name, **(tags or {})}).decode(),
        scopes=None if scopes is None else orjson.dumps(scopes).decode(),
        unique_key=unique_key,
        limits=limits,
    )
    named = _limits_of(work, schedule)
    task = make_task(work, item, job, named, room=schedule.room, user=schedule.owner)
    task.schema_version = schedule.schema_version
    task.schedule_id = schedule.id
    if flow_name is not None:
        task.flow_id = str(uuid7())
        work.dependencies.add_flow(Flow(task.flow_id, flow_name, schedule.room, schedule.owner, work.now))
    work.add_task(task)
    crowd_in(work, task, named)
    schedule.last_at, schedule.last_task_id = tick or work.now, task.id
    if tick is not None:
        work.changes.ticks.append((schedule.id, tick, task.seq))
    work.tick_schedule(schedule)
    return task


def fire(work: UnitOfWork, schedule: Schedule, *, is_behind: bool = False) -> Task | None:
    """Use up all ticks that have come; return the one task made for them, or None if they are skipped.

    A tick that `is_behind` came while the last task was open, and so counts as missed. A tick is also skipped, which
    the schedule records, if another task holds its unique key, its limits are invalid or its time zone is unknown here.
    """
    tick = schedule.next_at
    try:
        # Only for schedules that need it: searching for it at each tick would hold up the writer.
        last = schedule.last_tick(work.now) if tick is not None and "deadline" in options_of(schedule) else None
        skips = schedule.missed == "skip" and (is_behind or schedule.has_missed(work.now))
        schedule.advance(work.now)
        holder = key_holder(work, schedule)
        why = _limits_refused(work, schedule)
    except ValidationFailed as error:
        # The zone was known when the schedule was set: to a server with other time zones, or before an update of them.
        schedule.next_at = work.now + LOOK_AGAIN
        last, skips, holder, why = None, False, None, error.detail
    if skips or holder is not None or why is not None:
        if not skips:
            schedule.skipped_at, schedule.skipped_why = tick, why
            schedule.skipped_for = None if holder is None or why is not None else holder.id
        work.change_schedule(schedule)
        return None
    return make_instance(work, schedule, tick, last=last)


def _limits_refused(work: UnitOfWork, schedule: Schedule) -> str | None:
    """Return why the limits of the schedule's next task forbid it, or None if they don't."""
    try:
        _limits_of(work, schedule)
    except (LimitNotFound, LimitFull, ValidationFailed) as error:
        return error.detail[:MOST_WHY]
    return None


def _limits_of(work: UnitOfWork, schedule: Schedule) -> list[Named]:
    own = options_of(schedule).get("limits")
    named = limits_of(work, work.jobs_by_num[schedule.job_num], schedule.room, own, schedule.payload)
    if work.admission:
        admit(work, [Wanted(named, is_due=True)])
    return named


def make_next_instances(work: UnitOfWork) -> None:
    """Make the next instance of each schedule whose last one was ended by this batch, if its tick has come (E10)."""
    for task in list(work.tasks.values()):
        if task.schedule_id is None or task.completed_at is None:
            continue
        schedule = work.schedules.get(task.schedule_id)
        if schedule is None or schedule.last_task_id != task.id or not schedule.is_due(work.now):
            continue
        if schedule.owner not in work.acting:
            # The schedule waits; the scheduler finds the tick once its owner has a valid token again.
            continue
        if work.jobs_by_num[schedule.job_num].deleted_at is None:
            fire(work, schedule, is_behind=True)
