"""A small history by hand in which all is well: two tasks of a target, a retry, an edit, a cancel, a rerun."""

from dataclasses import replace
from typing import Any

from tests.history.records import Fault, History, Mark, RunRow, Said, TaskRow


def said(op: str, task: str, sent: float, told: dict[str, Any] | None = None, **fields: Any) -> Said:
    """An acknowledged request that took a tenth of a second."""
    return Said("client", op, task, sent, sent + 0.1, "acknowledged", fields, told or {})


def ran(task: str, run: int, begin: float, end: float, last: str = "end", **rest: Any) -> list[Mark]:
    """The marks of one run."""
    whose = {"worker": "w", "n": 1, **rest}
    return [Mark("begin", task, run, begin, **whose), Mark(last, task, run, end, **whose)]  # type: ignore[arg-type]


def row(task: str, seq: int, status: str = "completed", **rest: Any) -> TaskRow:
    """A task that completed with the result of its payload, unless something else is said."""
    result = {"n": 1} if status == "completed" else None
    given = {"version": 5, "payload": {"n": 1}, "result": result, "lease_seconds": 3.0, "max_retries": 1}
    return TaskRow(task, seq, status, **{**given, **rest})


def good() -> History:
    """A history without a violation."""
    put_in = {"payload": {"n": 1}}
    history = History(
        said=[
            said("submit", "first", 1.0, {"version": 1}, **put_in),
            said("submit", "second", 1.2, {"version": 1}, **put_in),
            said("submit", "retried", 1.4, {"version": 1}, **put_in),
            said("submit", "edited", 1.5, {"version": 1}, **put_in),
            said("edit", "edited", 1.7, {"version": 2}, payload={"n": 2}, priority=3),
            said("submit", "cancelled", 1.8, {"version": 1}, **put_in),
            said("cancel", "cancelled", 3.0, {"version": 4, "run_id": 0}),
            said("submit", "again", 1.9, {"version": 1}, **put_in),
            said("rerun", "again", 5.0, {"version": 4, "run_id": 0}),
            said("runs", "again", 4.0, {"items": [_seen(0)]}),
            said("runs", "again", 8.0, {"items": [_seen(0), _seen(1)]}),
        ],
        marks=[
            *ran("first", 0, 2.0, 3.0, target="t"),
            *ran("second", 0, 3.1, 4.0, target="t"),
            *ran("retried", 0, 2.0, 2.5, "raise"),
            *ran("retried", 1, 5.0, 5.1),
            *ran("edited", 0, 6.0, 6.1, n=2),
            *ran("cancelled", 0, 2.0, 4.0, "beat"),
            *ran("again", 0, 2.0, 2.1),
            *ran("again", 1, 7.0, 7.1),
        ],
        faults=[Fault("freeze", "frozen", 30.0, 40.0)],
        tasks=[
            row("first", 1, target="t"),
            row("second", 2, target="t"),
            row("retried", 3),
            row("edited", 4, payload={"n": 2}, priority=3, result={"n": 2}),
            row("cancelled", 5, "cancelled", reason="cancelled"),
            row("again", 6),
        ],
        runs=[
            RunRow("first", 0, "completed"),
            RunRow("second", 0, "completed"),
            RunRow("retried", 0, "failed", "error"),
            RunRow("retried", 1, "completed"),
            RunRow("edited", 0, "completed"),
            RunRow("cancelled", 0, "cancelled", "cancelled"),
            RunRow("again", 0, "completed"),
            RunRow("again", 1, "completed"),
        ],
    )
    history.observed["observer"] = {one.id: (one.status, one.version) for one in history.tasks}
    return history


def _seen(run: int) -> dict[str, Any]:
    return {"run_id": run, "status": "completed", "reason": None, "ended_at": "2026-01-01T12:00:00Z"}


def changed(history: History, task: str, **rest: Any) -> None:
    """Change a task's row, and what observers know of it."""
    history.tasks = [replace(one, **rest) if one.id == task else one for one in history.tasks]
    for states in history.observed.values():
        states |= {one.id: (one.status, one.version) for one in history.tasks}


def without(history: History, task: str) -> None:
    """Lose a task with all that the tables had of it."""
    history.tasks = [one for one in history.tasks if one.id != task]
    history.runs = [one for one in history.runs if one.task != task]
    history.marks = [one for one in history.marks if one.task != task]
    for states in history.observed.values():
        states.pop(task)
