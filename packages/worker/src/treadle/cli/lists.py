"""`treadle tasks`, `treadle failures`, `treadle jobs`."""

from typing import TYPE_CHECKING

import click

from treadle.cli.show import (
    age,
    as_json,
    ask,
    at_most,
    brief,
    from_room,
    print_json,
    print_page,
    print_table,
    say,
    spelt,
)
from treadle.cli.texts import NAME
from treadle.cli.which import explaining_filters, filter_of
from treadle.errors import JobNotFound

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.failures import FailureGroup, FailureGroups
    from treadle.wire.filters import TaskFilter
    from treadle.wire.jobs import JobItem
    from treadle.wire.pages import Page
    from treadle.wire.tasks import TaskItem


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@at_most
@as_json
@explaining_filters
def tasks(filters: tuple[str, ...], *, limit: int, is_json: bool) -> None:
    """List tasks, newest first."""
    wanted = filter_of(" ".join(filters))
    page, why = ask(lambda client: _read_tasks(client, wanted, limit))
    columns = ("id", "job", "status", "pos", "due", "run", "created", "payload")
    print_page(page, columns, _task_row, empty=_none("tasks", why), is_json=is_json)


async def _read_tasks(client: "Client", wanted: "TaskFilter", limit: int) -> "tuple[Page[TaskItem], str | None]":
    """Return tasks, and, if there are none because the filter's job does not exist, why."""
    page = await client.list(wanted, limit=limit)
    return page, None if page.items else await _without_job(client, wanted.job)


async def _without_job(client: "Client", job: str | None) -> str | None:
    """Return the server's message about a job that does not exist; None if it exists."""
    try:
        if job is not None:
            await client.job(job)
    except JobNotFound as error:
        return error.problem.detail
    return None


def _none(what: str, why: str | None) -> str:
    return f"No {what}: {why}." if why else f"No {what}."


def _task_row(item: "TaskItem") -> tuple[object, ...]:
    created, payload = age(item.created_at), brief(item.payload)
    # For a task that waits for a limit: when the limit's rate lets it start.
    due = item.due or item.limit_opens_at
    place, starts = item.queue_position, None if due is None else age(due)
    return (item.id, item.job_name, item.status, place, starts, item.run_id, created, payload)


@click.command()
@click.option("--room", type=NAME, help="Only failures of this room's tasks.")
@click.option("--job", type=NAME, help="Only failures of this job, room:category:name.")
@as_json
def failures(*, room: str | None, job: str | None, is_json: bool) -> None:
    """List failures: failed runs grouped by the type of their error and where it was raised, the latest first.

    RUNS counts runs among the last 10,000 failed ones, FAILED and RETRYING the tasks that are in this state because of
    it now. The ID selects these tasks in a filter: `treadle tasks failure:ID` lists them, and
    `treadle resume --where failure:ID` runs them again.
    """
    found, why = ask(lambda client: _read_failures(client, room, job))
    if is_json:
        print_json(found)
        return
    columns = ("id", "error", "where", "last", "runs", "failed", "retrying", "job", "said")
    print_table(columns, [_failure_row(item) for item in found.items], empty=_none("failures", why))
    if found.is_capped:
        say("There are more, older than the last 10,000 failed runs.", err=True)


async def _read_failures(client: "Client", room: str | None, job: str | None) -> "tuple[FailureGroups, str | None]":
    found = await client.failures(room=room, job=job)
    return found, None if found.items else await _without_job(client, job)


def _failure_row(item: "FailureGroup") -> tuple[object, ...]:
    jobs = item.jobs[0] if len(item.jobs) == 1 else f"{len(item.jobs)} jobs"
    last = age(item.last_seen_at)
    return (item.id, item.kind, item.place, last, item.runs, item.failed, item.retrying, jobs, spelt(item.error))


@click.command()
@from_room
@at_most
@as_json
def jobs(room: str, *, limit: int, is_json: bool) -> None:
    """List the jobs that can be seen from a room, and the counts of their queues."""
    page = ask(lambda client: client.jobs(room, limit=limit))
    columns = ("job", "pending", "claimed", "running", "retrying", "failed", "completed", "workers", "state")
    print_page(page, columns, _job_row, empty="No jobs.", is_json=is_json)


def _job_row(item: "JobItem") -> tuple[object, ...]:
    counts = item.counts
    return (
        item.full_name,
        counts.get("pending", 0) + counts.get("scheduled", 0) + counts.get("blocked", 0),
        counts.get("claimed", 0),
        counts.get("running", 0),
        item.retrying,
        counts.get("failed", 0),
        counts.get("completed", 0),
        len(item.workers),
        "paused" if item.paused else "open",
    )
