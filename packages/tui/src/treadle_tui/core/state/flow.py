"""A flow as a screen shows it: the rows of its tree, the state of its tasks, and its critical path."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from treadle.wire.flow_tree import CriticalPath, critical_path, took, tree
from treadle.wire.flows import FlowTask, FlowView
from treadle.wire.status import TERMINAL

DEEPEST = 10
"""The deepest indentation of a task, in steps; a task below that shows its depth as a number."""


@dataclass(frozen=True, slots=True)
class FlowRow:
    """The row of a task. A task that several tasks wait for has a row beneath each of them."""

    id: str
    """The task's id, followed by this row's number from the task's second row on."""
    task: FlowTask
    depth: int
    continues: tuple[bool, ...]
    """For each of the first `DEEPEST` steps down to the task: whether that branch continues further down."""
    is_above: bool
    """Whether the task already has a row further up, with everything it waits for beneath it."""
    is_critical: bool
    """Whether the task is on the critical path."""
    seconds: float | None
    """How long it has been running, or ran."""

    def exported(self) -> dict[str, Any]:
        """Return the fields that are written to an exported file."""
        told = {"depth": self.depth, "is_above": self.is_above, "is_critical": self.is_critical}
        return {**self.task.model_dump(mode="json"), **told, "seconds": self.seconds}


_NONE = CriticalPath((), 0.0)


@dataclass(frozen=True, slots=True)
class FlowLines:
    """A flow's rows and critical path at a moment."""

    rows: tuple[FlowRow, ...] = ()
    critical: CriticalPath = _NONE


def flow_lines(view: FlowView, now: datetime, usual: Mapping[str, float]) -> FlowLines:
    """Return the rows of a flow's tree. `usual` has the usual seconds of a run by the job's name."""
    critical = critical_path(view, now, usual)
    return FlowLines(tuple(_rows(view, now, {task.id for task in critical.tasks})), critical)


def _rows(view: FlowView, now: datetime, critical: set[str]) -> Iterator[FlowRow]:
    times: dict[str, int] = {}
    branches = list(tree(view))
    steps = _continuing([branch.depth for branch in branches])
    for (task, depth, is_above), continues in zip(branches, steps, strict=True):
        times[task.id] = again = times.get(task.id, 0) + 1
        yield FlowRow(
            id=task.id if again == 1 else f"{task.id} {again}",
            task=task,
            depth=depth,
            continues=continues,
            is_above=is_above,
            is_critical=task.id in critical,
            seconds=took(task, now),
        )


def _continuing(depths: Sequence[int]) -> list[tuple[bool, ...]]:
    """Return, for each row, on which of its first steps another branch continues further down."""
    told: list[tuple[bool, ...]] = []
    beneath: list[bool] = []
    for steps in reversed(depths):
        depth = min(steps, DEEPEST + 1)
        beneath = [*beneath, *[False] * depth][:depth]
        told.append(tuple(beneath[:DEEPEST]))
        beneath[-1:] = [True] * bool(depth)
    return told[::-1]


def is_open(view: FlowView) -> bool:
    """Return whether any task of the flow is not terminal."""
    return any(count and status not in TERMINAL for status, count in view.counts.items())
