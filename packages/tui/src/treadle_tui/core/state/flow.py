"""A flow as a screen shows it: the lines of its tree, what has become of its tasks, and what takes the longest."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from treadle.wire.flow_tree import CriticalPath, critical_path, took, tree
from treadle.wire.flows import FlowTask, FlowView
from treadle.wire.status import TERMINAL

DEEPEST = 10
"""Steps that a task is indented at most; one that stands deeper says how deep."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """A task's line; a task for which several wait has one beneath each of them."""

    id: str
    """The task's id, and behind it the how-manieth line of the task this is, from the second on."""
    task: FlowTask
    depth: int
    goes_on: tuple[bool, ...]
    """Whether, of each of the first `DEEPEST` steps down to the task, another task hangs on it further down."""
    is_above: bool
    """Whether the task has a line above, with all that it waits for beneath it."""
    is_critical: bool
    """Whether the flow takes as long as it does because of this task."""
    seconds: float | None
    """How long it runs, or ran."""

    def exported(self) -> dict[str, Any]:
        """Return what is written of it to a file."""
        told = {"depth": self.depth, "is_above": self.is_above, "is_critical": self.is_critical}
        return {**self.task.model_dump(mode="json"), **told, "seconds": self.seconds}


_NONE = CriticalPath((), 0.0)


@dataclass(frozen=True, slots=True)
class FlowLines:
    """A flow at one moment."""

    rows: tuple[FlowRow, ...] = ()
    critical: CriticalPath = _NONE


def flow_lines(view: FlowView, now: datetime, usual: Mapping[str, float]) -> FlowLines:
    """Return the lines of a flow's tree; `usual` is how many seconds a job's tasks take, by the job's name."""
    critical = critical_path(view, now, usual)
    return FlowLines(tuple(_rows(view, now, {task.id for task in critical.tasks})), critical)


def _rows(view: FlowView, now: datetime, critical: set[str]) -> Iterator[FlowRow]:
    times: dict[str, int] = {}
    branches = list(tree(view))
    steps = _going_on([branch.depth for branch in branches])
    for (task, depth, is_above), goes_on in zip(branches, steps, strict=True):
        times[task.id] = again = times.get(task.id, 0) + 1
        yield FlowRow(
            id=task.id if again == 1 else f"{task.id} {again}",
            task=task,
            depth=depth,
            goes_on=goes_on,
            is_above=is_above,
            is_critical=task.id in critical,
            seconds=took(task, now),
        )


def _going_on(depths: Sequence[int]) -> list[tuple[bool, ...]]:
    """Return of each line on which of the first steps that lead to it another one hangs further down."""
    told: list[tuple[bool, ...]] = []
    beneath: list[bool] = []
    for steps in reversed(depths):
        depth = min(steps, DEEPEST + 1)
        beneath = [*beneath, *[False] * depth][:depth]
        told.append(tuple(beneath[:DEEPEST]))
        beneath[-1:] = [True] * bool(depth)
    return told[::-1]


def is_open(view: FlowView) -> bool:
    """Return whether any of its tasks has not ended."""
    return any(count and status not in TERMINAL for status, count in view.counts.items())
