"""`treadle flows` and `treadle flow ID`: lists of flows, a flow as a tree of its tasks, and verbs for all of these."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import click

from treadle.cli.clock import server_time
from treadle.cli.show import age, as_json, ask, at_most, duration, print_json, print_page, say, styled, told
from treadle.cli.steer import print_result
from treadle.cli.which import Id, full_flow_id
from treadle.wire import flow_tree
from treadle.wire.amounts import counted, percent
from treadle.wire.flows import FLOW_VERBS
from treadle.wire.status import TERMINAL

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.bulk import BulkResult
    from treadle.wire.flows import FlowItem, FlowTask, FlowView

_METHODS = {
    "cancel": "cancel_flow",
    "pause": "pause_flow",
    "resume": "resume_flow",
    "rerun-failed": "rerun_failed",
}
"""The client's method for each verb."""

MOST_NAMED = 8
"""The most tasks of the critical path that are named; of a longer one the first and the last."""

DEEPEST = 12
"""How deep a line is indented at most; deeper ones give their depth as a number."""


@click.command()
@click.option("--room", help="Only those seen from this room; by default all that you may read.")
@at_most
@as_json
def flows(room: str | None, *, limit: int, is_json: bool) -> None:
    """List flows, newest first, with their progress and the statuses of their tasks."""
    page = ask(lambda client: client.flows(room=room, limit=limit))
    columns = ("id", "name", "room", "tasks", "ended", "counts", "created")
    print_page(page, columns, _flow_row, empty="No flows.", is_json=is_json)


def _flow_row(item: "FlowItem") -> tuple[object, ...]:
    ended, created = percent(item.progress), age(item.created_at)
    return (item.id, item.name, item.room_id, item.total, ended, _counts(item), created)


@click.command()
@click.argument("flow_id", type=Id("flow"), metavar="ID")
@click.argument("verb", type=click.Choice(list(FLOW_VERBS)), required=False)
@as_json
def flow(flow_id: str, verb: str | None, *, is_json: bool) -> None:
    """Show a flow as a tree: beneath each task those that it waits for. Or cancel, pause or resume all its tasks.

    A task that several others wait for is drawn once, and then marked `above`. The critical path is the chain of tasks
    that takes the longest. `rerun-failed` reruns the failed tasks, and puts back those that were cancelled because of
    them. ID may be shortened to its beginning if that is unique.
    """
    if verb is not None:
        print_result(verb, ask(lambda client: _steer(client, flow_id, verb)), is_json=is_json)
        return

    view = ask(lambda client: _read(client, flow_id))
    if is_json:
        print_json(view)
        return
    say(
        styled(view.name or view.id, bold=True),
        f"{counted(view.total, 'task')}, {percent(view.progress)} ended: {_counts(view)}",
    )
    for line in (*tree(view), *critical_path(view)):
        say(line)
    if view.is_capped:
        say(f"The first {len(view.tasks)} tasks; `treadle tasks flow:{view.id}` lists all.")


async def _read(client: "Client", given: str) -> "FlowView":
    return await client.flow(await full_flow_id(client, given))


async def _steer(client: "Client", given: str, verb: str) -> "BulkResult":
    result: BulkResult = await getattr(client, _METHODS[verb])(await full_flow_id(client, given))
    return result


def tree(view: "FlowView") -> Iterator[str]:
    """Yield the lines of a flow's tree: tasks that nothing waits for, and beneath each task what it waits for."""
    for task, depth, is_above in flow_tree.tree(view):
        yield _indent(depth) + _line(task, is_above=is_above)


def critical_path(view: "FlowView") -> Iterator[str]:
    """Yield the line that names the chain of tasks that takes the longest; none before anything has begun."""
    tasks, seconds = flow_tree.critical_path(view, server_time.now())
    if not seconds:
        return
    names = [task.job_name.rsplit(":", 1)[-1] for task in tasks]
    if len(names) > MOST_NAMED:
        names[MOST_NAMED // 2 : -MOST_NAMED // 2] = ["..."]
    yield f"Critical path: {counted(len(tasks), 'task')}, {duration(seconds)}: {' -> '.join(names)}"


def _indent(depth: int) -> str:
    return "  " * depth if depth <= DEEPEST else f"{'  ' * DEEPEST}{depth}: "


def _line(task: "FlowTask", *, is_above: bool) -> str:
    parts = [f"{task.status:<9}", task.job_name, task.id]
    if is_above:
        return " ".join([*parts, "(above)"])
    if task.reason:
        parts.append(f"({task.reason})")
    if task.waits_for and task.status not in TERMINAL:
        how = "" if task.on_dependency_failure in {None, "cancel"} else f" ({task.on_dependency_failure})"
        parts.append(f"waits for {task.waits_for}{how}")
    if task.started_at:
        until = task.completed_at or server_time.now()
        parts.append(f"in {duration(max(0.0, (until - task.started_at).total_seconds()))}")
    if task.error:
        parts.append(f"- {_first_line(task.error)}")
    return " ".join(parts)


def _first_line(error: str) -> str:
    lines: Sequence[str] = (told(error) or "").strip().splitlines()
    return lines[-1] if lines else ""


def _counts(item: "FlowItem") -> str:
    counts: Mapping[str, int] = item.counts
    return ", ".join(f"{number} {status}" for status, number in counts.items()) or "none"
