"""`treadle task ID`: everything about one task, and its changes as they come."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

import click

from treadle.cli.clock import server_time
from treadle.cli.show import (
    FOLLOWING,
    age,
    as_json,
    ask,
    because,
    brief,
    duration,
    open_client,
    print_json,
    say,
    say_line,
    spelt,
    told,
)
from treadle.cli.standing import blocking_reason
from treadle.cli.which import TASK_ID, full_id
from treadle.wire.amounts import amount, counted, first_of
from treadle.wire.runs import LINES_AT_ONCE
from treadle.wire.sealed import seal_of
from treadle.wire.shown import clean_json
from treadle.wire.status import TERMINAL, Status

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.runs import LogItem
    from treadle.wire.steps import StepItem
    from treadle.wire.targets import TargetItem
    from treadle.wire.tasks import RunItem, TaskItem


class _About(NamedTuple):
    """What is read about a task."""

    task: "TaskItem"
    runs: "list[RunItem]"
    steps: "list[StepItem]"
    logs: "list[LogItem]"
    target: "TargetItem | None"
    """Its target, only if it waits for it."""
    note: str | None
    """What keeps it from going on by itself."""


@click.command()
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.option(
    "--traceback/--no-traceback", "is_long", default=True, help="Print the whole traceback of each failed run."
)
@click.option(
    "--logs",
    "lines",
    type=click.IntRange(0, LINES_AT_ONCE),
    default=20,
    show_default=True,
    help="At most this many lines of its log.",
)
@click.option("-f", "--follow", is_flag=True,
              help="Instead print each change, until the task has ended; exit 1 unless it completed.")  # fmt: skip
@as_json
def task(task_id: str, *, is_long: bool, lines: int, follow: bool, is_json: bool) -> None:
    """Show a task: its state, what it waits for, its runs and their errors, its steps, and what its code logged last.

    ID may be shortened to its beginning if that is unique. With --follow and --json each line is a JSON object.
    """
    if follow:
        asyncio.run(_follow(task_id, is_json=is_json))
        return
    about = ask(lambda client: _read(client, task_id, lines))
    if is_json:
        print_json(about._asdict())
        return
    for name, value in _described(about):
        if value is not None:
            say_line(name, value)
    for each in about.runs:
        say_line(f"run {each.run_id}", _run_line(each))
        if each.traceback and is_long:
            say(f"  {(told(each.traceback) or '').rstrip()}")
    for step in about.steps:
        say_line(f"step {step.run_id}", _step_line(step))
    for line in about.logs:
        say_line(f"log {line.run_id}", f"{line.at:%H:%M:%S} {line.level:<7} {told(line.message)}")


async def _follow(given: str, *, is_json: bool) -> None:
    async with open_client(patience=FOLLOWING) as client:
        handle = client.handle(await full_id(client, given))
        item = await handle.get()
        server_time.correct(client.opening().answered_at)
        async for item in handle.follow():
            _print_change(item, is_json=is_json)
    if item.status is not Status.COMPLETED:
        raise SystemExit(1)


def _print_change(item: "TaskItem", *, is_json: bool) -> None:
    if is_json:
        click.echo(clean_json(item.model_dump_json()))
        return
    place = None if item.queue_position is None else f"place {item.queue_position:,}"
    parts = [_status(item), place, spelt(_progress(item.progress))]
    say(f"{server_time.now():%H:%M:%S} {', '.join(part for part in parts if part is not None)}")


async def _read(client: "Client", given: str, lines: int) -> _About:
    task_id = await full_id(client, given)
    item = await client.get(task_id)
    runs = await client.runs(task_id)
    steps = await client.steps(task_id) if item.steps else []
    logs = (await client.logs(task_id))[-lines:] if lines else []
    target = await client.target(item.target, room=item.room_id) if item.target and item.blocked_by else None
    return _About(item, runs, steps, logs, target, await blocking_reason(client, item, steps))


def _described(about: _About) -> list[tuple[str, object]]:
    from treadle.wire.tags import shown

    item = about.task
    return [
        ("task", item.id),
        ("job", item.job_name),
        ("room", item.room_id),
        ("status", _status(item)),
        ("note", None if about.note is None else f"it {about.note}"),
        ("encrypted", _encrypted(item)),
        ("position", item.queue_position),
        ("target", spelt(item.target)),
        ("blocked by", _blockers(about)),
        ("not before", _when(item.limit_opens_at)),
        ("flow", item.flow_id),
        ("waits for", _waits_for(item)),
        ("depends on", _depends_on(item)),
        ("if it fails", item.on_dependency_failure),
        ("payload", brief(item.payload, 1000)),
        ("result", None if item.result is None else brief(item.result, 1000)),
        ("error", told(item.error)),
        ("checkpoint", None if item.checkpoint is None else brief(item.checkpoint, 1000)),
        ("progress", _progress(item.progress)),
        ("trace", item.trace_id),
        ("usage", _of(item.usage, item.budget)),
        ("tags", None if not item.tags else spelt(", ".join(shown(item.tags)))),
        ("priority", item.priority or None),
        ("weight", item.weight if item.weight != 1 else None),
        ("pool", spelt(item.pool)),
        ("retries", f"{item.retry_count} of {item.max_retries}"),
        ("requeues", f"{item.requeue_count} of {item.max_requeues}"),
        ("created", _when(item.created_at)),
        ("due", _when(item.due)),
        ("deadline", _when(item.deadline)),
        ("lease", _when(item.taken_until)),
        ("ended", _when(item.completed_at)),
        ("worker", item.worker_id),
    ]


def _status(item: "TaskItem") -> str:
    asked = ", asked to stop" if item.cancel_requested else ""
    return f"{because(item.reason, item.status)}{asked}{', settled by hand' if item.settled else ''}"


def _encrypted(item: "TaskItem") -> str | None:
    """Return whether a task is encrypted, and whether the keys here decrypt it."""
    if not item.encrypted:
        return None
    return "yes" if seal_of(item.payload) is None else "yes, but no key available here can decrypt it"


def _blockers(about: _About) -> str | None:
    """Return the tasks that hold the target, each with its cause."""
    if not about.task.blocked_by:
        return None
    causes = {} if about.target is None else {holder.task_id: holder.cause for holder in about.target.holders}
    named = [f"{task_id} ({causes[task_id]})" if task_id in causes else task_id for task_id in about.task.blocked_by]
    return ", ".join(named)


def _waits_for(item: "TaskItem") -> str | None:
    """Return how many tasks an open task waits for."""
    if not item.waits_for or item.status in TERMINAL:
        return None
    return counted(item.waits_for, "task")


MOST_NAMED = 10
"""The most tasks shown under one name."""


def _depends_on(item: "TaskItem") -> str | None:
    """Return the tasks that it depends on, by name."""
    parts = [f"{spelt(name)}: {_ids(said)}" for name, said in (item.depends_on or {}).items()]
    if item.depends_on_total is not None:
        parts.append(f"{item.depends_on_total:,} in all")
    return "; ".join(parts) or None


def _ids(said: str | list[str]) -> str:
    return first_of([said] if isinstance(said, str) else said, MOST_NAMED)


def _progress(progress: object) -> str | None:
    if not isinstance(progress, Mapping):
        return None
    share, message = progress.get("share"), progress.get("message")
    said = told(message) if isinstance(message, str) else message
    parts = [f"{share:.0%}" if isinstance(share, float | int) else None, said]
    return " ".join(str(part) for part in parts if part is not None) or None


def _of(usage: float | None, budget: float | None) -> str | None:
    if usage is None and budget is None:
        return None
    return f"{amount(usage or 0)}" + ("" if budget is None else f" of {amount(budget)}")


def _when(instant: datetime | None) -> str | None:
    return None if instant is None else f"{instant:%Y-%m-%d %H:%M:%S %Z} ({age(instant)})"


def _run_line(each: "RunItem") -> str:
    parts = [because(each.reason, each.status)]
    if each.worker_name or each.worker_id:
        parts.append(f"by {spelt(each.worker_name or each.worker_id)}")
    parts.append(_times([("claimed", each.claimed_at), ("started", each.started_at), ("ended", each.ended_at)]))
    if each.started_at and each.ended_at:
        parts.append(f"in {duration((each.ended_at - each.started_at).total_seconds())}")
    if each.error:
        parts.append(f"- {told(each.error)}")
    return " ".join(parts)


def _step_line(step: "StepItem") -> str:
    name = f"{spelt(step.step)}{f' #{step.occurrence + 1}' if step.occurrence else ''}"
    if step.kind == "call":
        took = "" if step.seconds is None else f" in {duration(step.seconds)}"
        return f"{name} {step.at:%H:%M:%S}{took}: {brief(step.result, 200)}"
    until = None if step.until is None else f"{step.until:%Y-%m-%d %H:%M:%S}"
    if step.kind == "sleep":
        return f"{name} until {until}"
    if step.received_at is None:
        is_over = step.until is not None and step.until <= server_time.now()
        return f"{name} {step.at:%H:%M:%S}, no message{' came' if is_over else '; waits'} until {until}"
    return f"{name} received {step.received_at:%H:%M:%S}: {brief(step.result, 200)}"


def _times(named: Sequence[tuple[str, datetime | None]]) -> str:
    return ", ".join(f"{name} {at:%H:%M:%S}" for name, at in named if at is not None)
