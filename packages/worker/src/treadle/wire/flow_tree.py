"""A flow as a tree of its tasks, and the chain of them that takes the longest."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from graphlib import CycleError, TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

from treadle.wire.flows import FlowTask, FlowView
from treadle.wire.status import TERMINAL, Status

UNKNOWN: Mapping[str, float] = MappingProxyType({})


class Branch(NamedTuple):
    """A line of the tree."""

    task: FlowTask
    depth: int
    """How many tasks are above it, each of which waits for the next."""
    is_above: bool
    """Whether the task was drawn further up, with all that it waits for."""


class CriticalPath(NamedTuple):
    """The chain of tasks that takes the longest: if everything else runs beside it, so long does the flow take."""

    tasks: tuple[FlowTask, ...]
    """From the first to the last; empty for a flow without tasks."""
    seconds: float


def tree(view: FlowView) -> Iterator[Branch]:
    """Yield tasks that nothing waits for, and beneath each task what it waits for; each is drawn in full only once."""
    tasks = {task.id: task for task in view.tasks}
    needs = _needs(view)
    needed = {one for listed in needs.values() for one in listed}
    waiting = [(task_id, 0) for task_id in tasks if task_id not in needed]
    drawn: set[str] = set()
    waiting.reverse()
    while waiting:
        task_id, depth = waiting.pop()
        is_above = task_id in drawn
        drawn.add(task_id)
        yield Branch(tasks[task_id], depth, is_above)
        if not is_above:
            waiting += [(one, depth + 1) for one in reversed(needs[task_id])]


def critical_path(view: FlowView, now: datetime, usual: Mapping[str, float] = UNKNOWN) -> CriticalPath:
    """Return the chain that takes the longest, of equally long ones one with the most tasks.

    A task that has begun counts with what its runs took until `now`, failed and retried ones included; an open one with
    at least what its job usually takes, in seconds by the job's name in `usual`. For a flow that is capped the chain is
    empty, as a longer one may go through tasks that are not listed.
    """
    if view.is_capped:
        return CriticalPath((), 0.0)
    tasks, needs = {task.id: task for task in view.tasks}, _needs(view)
    try:
        order = list(TopologicalSorter({task_id: needs[task_id] for task_id in tasks}).static_order())
    except CycleError:  # which no server returns
        return CriticalPath((), 0.0)
    best: dict[str, tuple[float, int]] = {}
    before: dict[str, str] = {}
    for task_id in order:
        known = [(best[one], one) for one in needs[task_id]]
        (seconds, steps), before_it = max(known, default=((0.0, 0), ""))
        best[task_id] = (seconds + _counts_for(tasks[task_id], now, usual), steps + 1)
        before[task_id] = before_it
    if not best:
        return CriticalPath((), 0.0)
    last = max(best, key=lambda one: best[one])
    seconds, chain = best[last][0], []
    while last:
        chain.append(tasks[last])
        last = before[last]
    return CriticalPath(tuple(reversed(chain)), seconds)


def took(task: FlowTask, now: datetime) -> float | None:
    """Return for how many seconds a task has run, in all of its runs; None if it never began.

    If the server does not report the time of earlier runs, this is the time since the last start.
    """
    if task.started_at is None:
        return task.ran_seconds or None
    if task.ran_seconds is None:
        return max(0.0, ((task.completed_at or now) - task.started_at).total_seconds())
    open_run = (now - task.started_at).total_seconds() if task.status is Status.RUNNING else 0.0
    return task.ran_seconds + max(0.0, open_run)


def _counts_for(task: FlowTask, now: datetime, usual: Mapping[str, float]) -> float:
    so_far = took(task, now) or 0.0
    return so_far if task.status in TERMINAL else max(so_far, usual.get(task.job_name, 0.0))


def _needs(view: FlowView) -> dict[str, list[str]]:
    """Return what each task waits for, among the tasks that are listed."""
    shown = {task.id for task in view.tasks}
    needs: dict[str, list[str]] = defaultdict(list)
    for edge in view.edges:
        if edge.task_id in shown and edge.needs_id in shown:
            needs[edge.task_id].append(edge.needs_id)
    return needs
