"""`treadle tasks`, `treadle task`, `treadle jobs`, `treadle workers`."""

from typing import TYPE_CHECKING, Any

import click

from treadle.cli.show import age, as_json, brief, duration, open_client, print_json, print_table, run

if TYPE_CHECKING:
    from treadle.wire.jobs import JobItem
    from treadle.wire.tasks import RunItem, TaskItem
    from treadle.wire.workers import WorkerItem

_limit = click.option("--limit", type=click.IntRange(1, 500), default=50, show_default=True, help="Rows at most.")

FILTERS = ("room", "status", "job", "target", "worker", "tag")


@click.command()
@click.argument("filters", nargs=-1, metavar="[FILTER]...")
@_limit
@as_json
def tasks(filters: tuple[str, ...], *, limit: int, is_json: bool) -> None:
    """List tasks, newest first. All FILTERs must hold.

    A FILTER is status:failed (several with commas), job:@global:tasks:hello, room:lab, target:robot, worker:ID,
    tag:key or tag:key=value; anything else is text to be found in the id, the job's name, the payload or the error.
    """
    page = run(_tasks(_parsed(filters), limit))
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
    if page.total > len(page.items):
        click.echo(f"{len(page.items)} of {page.total}{'+' if page.total_is_capped else ''}; --limit shows more.")


async def _tasks(filters: dict[str, Any], limit: int) -> Any:
    async with open_client() as client:
        return await client.list(limit=limit, **filters)


def _parsed(filters: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filters:
        name, separator, value = part.partition(":")
        key = name if separator and name in FILTERS else "text"
        if key in found:
            raise click.UsageError(f"{part!r}: there is a {key} filter already; give several statuses as status:a,b")
        found[key] = value if key != "text" else part
    if "status" in found:
        from treadle.wire.status import Status

        try:
            found["status"] = [Status(status) for status in found["status"].split(",")]
        except ValueError as error:
            raise click.UsageError(f"{error}; there are {', '.join(Status)}") from None
    return found


@click.command()
@click.argument("task_id", metavar="ID")
@as_json
def task(task_id: str, *, is_json: bool) -> None:
    """Show a task, its runs, and the errors of those that failed."""
    item, runs = run(_task(task_id))
    if is_json:
        print_json({"task": item, "runs": runs})
        return
    for name, value in _described(item):
        if value is not None:
            click.echo(f"{click.style(f'{name:<10}', bold=True)} {value}")
    for each in runs:
        click.echo(f"{click.style(f'run {each.run_id:<6}', bold=True)} {_run_line(each)}")
        if each.traceback:
            click.echo(each.traceback.rstrip())


async def _task(task_id: str) -> "tuple[TaskItem, list[RunItem]]":
    async with open_client() as client:
        return await client.get(task_id), await client.runs(task_id)


def _described(item: "TaskItem") -> list[tuple[str, object]]:
    return [
        ("task", item.id),
        ("job", item.job_name),
        ("room", item.room_id),
        ("status", f"{item.status} ({item.reason})" if item.reason else item.status),
        ("position", item.queue_position),
        ("payload", brief(item.payload, 1000)),
        ("result", None if item.result is None else brief(item.result, 1000)),
        ("error", item.error),
        ("checkpoint", None if item.checkpoint is None else brief(item.checkpoint, 1000)),
        ("progress", None if item.progress is None else brief(item.progress)),
        ("target", item.target),
        ("blocked by", ", ".join(item.blocked_by) if item.blocked_by else None),
        ("tags", None if not item.tags else ", ".join(f"{key}={value}" for key, value in item.tags.items())),
        ("retries", f"{item.retry_count} of {item.max_retries}"),
        ("requeues", f"{item.requeue_count} of {item.max_requeues}"),
        ("created", f"{item.created_at:%Y-%m-%d %H:%M:%S %Z} ({age(item.created_at)})"),
        ("due", age(item.scheduled_at) if item.status == "scheduled" else None),
        ("worker", item.worker_id),
    ]


def _run_line(each: "RunItem") -> str:
    parts = [str(each.status)]
    if each.reason:
        parts.append(f"({each.reason})")
    if each.worker_name or each.worker_id:
        parts.append(f"by {each.worker_name or each.worker_id}")
    if each.started_at and each.ended_at:
        parts.append(f"in {duration((each.ended_at - each.started_at).total_seconds())}")
    if each.error:
        parts.append(f"- {each.error}")
    return " ".join(parts)


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
    columns = ("job", "pending", "running", "failed", "completed", "workers", "state")
    print_table(columns, [_job_row(item) for item in page.items], empty="No jobs.")


def _job_row(item: "JobItem") -> tuple[object, ...]:
    counts = item.counts
    return (
        item.full_name,
        counts.get("pending", 0) + counts.get("scheduled", 0),
        counts.get("running", 0) + counts.get("claimed", 0),
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
