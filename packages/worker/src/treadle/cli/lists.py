"""`treadle tasks`, `treadle jobs`, `treadle workers`."""

from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import (
    age,
    as_json,
    brief,
    duration,
    open_client,
    print_json,
    print_table,
    run,
    say_what_is_left,
)
from treadle.cli.which import explaining_filters, filter_of

if TYPE_CHECKING:
    from treadle.wire.filters import TaskFilter
    from treadle.wire.jobs import JobItem
    from treadle.wire.workers import WorkerItem

_limit = click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Rows at most.")


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@_limit
@as_json
@explaining_filters
def tasks(filters: tuple[str, ...], *, limit: int, is_json: bool) -> None:
    """List tasks, newest first."""
    page = run(_tasks(filter_of(" ".join(filters)), limit))
    if is_json:
        print_json(page)
        return
    columns = ("id", "job", "status", "pos", "run", "created", "payload")
    rows = [
        (
            item.id,
            item.job_name,
            item.status,
            item.queue_position,
            item.run_id,
            age(item.created_at),
            brief(item.payload),
        )
        for item in page.items
    ]
    print_table(columns, rows, empty="No tasks.")
    say_what_is_left(page)


async def _tasks(wanted: "TaskFilter", limit: int) -> Any:
    async with open_client() as client:
        return await client.list(wanted, limit=limit)


@click.command()
@click.option("--room", default="@global", show_default=True, help="The room to look from.")
@_limit
@as_json
def jobs(room: str, *, limit: int, is_json: bool) -> None:
    """List the jobs that are seen from a room, and the counts of their queues."""

    async def work() -> Any:
        async with open_client() as client:
            return await client.jobs(room, limit=limit)

    page = run(work())
    if is_json:
        print_json(page)
        return
    columns = ("job", "pending", "running", "retrying", "failed", "completed", "workers", "state")
    print_table(columns, [_job_row(item) for item in page.items], empty="No jobs.")


def _job_row(item: "JobItem") -> tuple[object, ...]:
    counts = item.counts
    return (
        item.full_name,
        counts.get("pending", 0) + counts.get("scheduled", 0) + counts.get("blocked", 0),
        counts.get("running", 0) + counts.get("claimed", 0),
        item.retrying,
        counts.get("failed", 0),
        counts.get("completed", 0),
        len(item.workers),
        "paused" if item.paused else "open",
    )


@click.command()
@click.option("--room", help="Only those that serve a room's jobs.")
@_limit
@as_json
def workers(room: str | None, *, limit: int, is_json: bool) -> None:
    """List workers and what they run."""

    async def work() -> Any:
        async with open_client() as client:
            return await client.workers(room=room, limit=limit)

    page = run(work())
    if is_json:
        print_json(page)
        return
    columns = ("id", "name", "state", "used", "pool", "jobs", "heartbeat")
    print_table(columns, [_worker_row(item) for item in page.items], empty="No workers.")


def _worker_row(item: "WorkerItem") -> tuple[object, ...]:
    used = f"{item.used}/{item.concurrency}"
    beat = f"{duration(item.heartbeat_age)} ago"
    return (item.id, item.name, item.state, used, item.pool, item.job_count or len(item.jobs), beat)
