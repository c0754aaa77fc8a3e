"""A small history by hand in which limits, flows, steps and messages are as they must be."""

from typing import Any

from tests.history.made import ran, row, said
from tests.history.records import Cap, Era, History, Mark, RunRow, StepRow

AHEAD = 1_000.0
"""Seconds that the store's clock is ahead of the monotonic one, until it is set back to that."""

STEPPED = 3_600.0
"""Seconds by which it is ahead of that until the instant 20."""


def more() -> History:
    """A history without a violation."""
    history = History(
        caps=[Cap("lab", "few", concurrency=2), Cap("@global", "turns", rate=(1, 1.0), burst=2)],
        limits_of_jobs={"craft": [{"name": "turns", "key": "/key"}]},
        eras=[Era(float("-inf"), AHEAD + STEPPED), Era(20.0, AHEAD)],
    )
    _limited(history)
    _flow(history)
    _journey(history)
    history.observed["observer"] = {one.id: (one.status, one.version) for one in history.tasks}
    return history


def _add(history: History, task: str, marks: list[Mark], status: str = "completed", **fields: Any) -> None:
    """Put a task in at the instant 1, with runs that say of themselves how they ended."""
    rest = {name: fields.pop(name) for name in ("reason", "max_retries", "claimed_at") if name in fields}
    claimed = rest.pop("claimed_at", 0.0)
    history.said.append(said("submit", task, 1.0, {"version": 1}, payload={"n": 1, **fields.pop("more", {})}, **fields))
    payload = history.said[-1].fields["payload"]
    history.tasks.append(row(task, len(history.tasks) + 1, status, payload=payload, **rest))
    history.marks += marks
    for run in sorted({mark.run for mark in marks}):
        last = [mark.what for mark in marks if mark.run == run][-1]
        ended = {"end": ("completed", None), "raise": ("failed", "error"), "nap": ("suspended", "suspended")}
        history.runs.append(RunRow(task, run, *ended.get(last, ("exception", "claim-expired")), claimed_at=claimed))


def _limited(history: History) -> None:
    """Two of weight 1 at once, then one of weight 2; the first of them goes on past its lease, at a lost worker."""
    few: Any = [{"name": "few"}]
    lost = [
        Mark("begin", "lost", 0, 2.0, "w", 1, until=8.0),
        Mark("beat", "lost", 0, 7.9, "w", 1, until=8.0),
        Mark("beat", "lost", 0, 12.0, "w", 1, until=8.0),
    ]
    _add(history, "lost", [*lost, *ran("lost", 1, 30.0, 30.1)], limits=few)
    history.tasks[-1] = row("lost", history.tasks[-1].seq, max_requeues=1)
    _add(history, "light", ran("light", 0, 3.0, 4.0), limits=few)
    _add(history, "heavy", ran("heavy", 0, 8.1, 9.0), limits=[{"name": "few", "weight": 2}])
    for i, at in enumerate((18.0, 18.1, 21.0)):
        # The last claim was after the clock had been set.
        shown = at + AHEAD + (STEPPED if at < 20 else 0.0)
        craft = {"job": "craft", "more": {"key": "a"}, "claimed_at": shown}
        _add(history, f"craft-{i}", ran(f"craft-{i}", 0, at + 0.2, at + 0.3), **craft)


def _given(task: str, at: float, **results: Any) -> Mark:
    return Mark("given", task, 0, at, "w", 1, note=results)


def _flow(history: History) -> None:
    """One fails; who cancels for it is cancelled, who runs for it is given None, and two have their results."""
    _add(history, "source", ran("source", 0, 2.0, 3.0))
    _add(history, "bad", ran("bad", 0, 2.0, 3.0, "raise"), "failed", reason="error", max_retries=0)
    begin, end = ran("sink", 0, 4.0, 5.0)
    needs: Any = {"parts": ["source", "source"]}
    sink = [begin, _given("sink", 4.1, parts=[{"n": 1}, {"n": 1}]), end]
    _add(history, "sink", sink, depends_on=needs)
    begin, end = ran("anyway", 0, 4.0, 5.0)
    anyway = [begin, _given("anyway", 4.1, before=None), end]
    _add(history, "anyway", anyway, depends_on={"before": ["bad"]}, on_dependency_failure="run")
    _add(history, "orphan", [], "cancelled", reason="dependency-failed", depends_on={"before": ["bad"]})
    _add(history, "heir", [], "cancelled", reason="dependency-failed", depends_on={"before": ["orphan"]})


def _step(what: Any, run: int, at: float, name: str, token: str) -> Mark:
    return Mark(what, "walker", run, at, "w", 1, note=[name, 0, token])


def _journey(history: History) -> None:
    """Two steps, of which one is cut off, then two messages; all of it gone through again by the run that ends."""
    first, again = Mark("begin", "walker", 0, 2.0, "w", 1), Mark("begin", "walker", 1, 5.0, "w", 1)
    marks = [
        first,
        _step("effect", 0, 2.1, "left", "a"),
        _step("used", 0, 2.2, "left", "a"),
        _step("effect", 0, 2.3, "right", "b"),
        again,
        _step("used", 1, 5.1, "left", "a"),
        _step("effect", 1, 5.2, "right", "c"),
        _step("used", 1, 5.3, "right", "c"),
        Mark("received", "walker", 1, 5.4, "w", 1, note=[0, "one"]),
        Mark("received", "walker", 1, 5.5, "w", 1, note=[1, "two"]),
        Mark("end", "walker", 1, 5.6, "w", 1),
    ]
    _add(history, "walker", marks)
    history.tasks[-1] = row("walker", history.tasks[-1].seq, max_requeues=1)
    history.said += [said("send", "walker", 3.0 + i, data=data) for i, data in enumerate(("one", "two"))]
    history.steps += [StepRow("walker", "left", 0, "call", "a"), StepRow("walker", "right", 0, "call", "c")]
