"""`treadle tasks`, `treadle jobs`, `treadle workers`."""

from typing import TYPE_CHECKING

import click

from treadle.cli.show import age, as_json, ask, at_most, brief, duration, from_room, print_page
from treadle.cli.which import explaining_filters, filter_of

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.filters import TaskFilter
    from treadle.wire.jobs import JobItem
    from treadle.wire.pages import Page
    from treadle.wire.tasks import TaskItem
    from treadle.wire.workers import WorkerItem


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
    print_page(page, columns, _task_row, empty=f"No tasks: {why}." if why else "No tasks.", is_json=is_json)


async def _read_tasks(client: "Client", wanted: "TaskFilter", limit: int) -> "tuple[Page[TaskItem], str | None]":
    """Return tasks, and why there are none where the filter names a job that there is not."""
    from treadle.errors import JobNotFound

    page = await client.list(wanted, limit=limit)
    if not page.items and wanted.job is not None:
        try:
            await client.job(wanted.job)
        except JobNotFound as error:
            return page, error.problem.detail
    return page, None


def _task_row(item: "TaskItem") -> tuple[object, ...]:
    created, payload = age(item.created_at), brief(item.payload)
    # Of one that waits for a limit: when the limit's rate lets it start.
    due = item.due or item.limit_opens_at
    place, starts = item.queue_position, None if due is None else age(due)
    return (item.id, item.job_name, item.status, place, starts, item.run_id, created, payload)


@click.command()
@from_room
@at_most
@as_json
def jobs(room: str, *, limit: int, is_json: bool) -> None:
    """List the jobs that are seen from a room, and the counts of their queues."""
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


@click.command()
@click.option("--room", help="Only those that serve a room's jobs.")
@at_most
@as_json
def workers(room: str | None, *, limit: int, is_json: bool) -> None:
    """List workers and what they run."""
    page = ask(lambda client: client.workers(room=room, limit=limit))
    columns = ("id", "name", "state", "used", "pool", "jobs", "heartbeat")
    print_page(page, columns, _worker_row, empty="No workers.", is_json=is_json)


def _worker_row(item: "WorkerItem") -> tuple[object, ...]:
    ahead = item.used - item.concurrency
    # What it has claimed beyond its slots waits there, and uses none.
    used = f"{item.concurrency}/{item.concurrency} +{ahead}" if ahead > 0 else f"{item.used}/{item.concurrency}"
    beat = f"{duration(item.heartbeat_age)} ago"
    return (item.id, item.name, item.state, used, item.pool, item.job_count or len(item.jobs), beat)
