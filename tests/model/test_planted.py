"""The search is tested itself: faults that are planted in the server are found, each within some programs."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.model.running import Search, on_sqlite
from treadle_server.access.credentials import Credentials
from treadle_server.domain import life
from treadle_server.domain.limits import BucketId, Gate
from treadle_server.domain.schedules import Schedule
from treadle_server.domain.tasks import Task
from treadle_server.engine import engine
from treadle_server.engine.commands import steering
from treadle_server.engine.commands import steps as step_commands
from treadle_server.engine.commands.reports import ReportMany
from treadle_server.engine.commands.submit import SubmitEach
from treadle_server.engine.dispatch import assignments
from treadle_server.engine.dispatch.fairness import LaneHead
from treadle_server.engine.unit_of_work import UnitOfWork
from treadle_server.errors import TaskConflict, TreadleError
from treadle_server.operations import bulk
from treadle_server.services.sweeper import Sweeper
from treadle_server.store.transaction import limit_rows

SECONDS = 40.0
"""Of the processor, within which each that the default run looks for is found; they take less than five."""

LONGEST = 300.0
"""The same for the others: it takes them up to 160 programs, some 100 seconds."""

Fault = Callable[..., Any]


def overtaking(first: Fault) -> Fault:
    """A claim takes the second task of a queue, where there are two."""

    def second(line: LaneHead, capacity: int) -> Task | None:
        fits = [task for task in line.tasks if task.weight <= capacity]
        return fits[1] if len(fits) > 1 else first(line, capacity)

    return second


def refilling(end_run: Fault) -> Fault:
    """What a run has used is forgotten when it ends."""

    def forgetting(task: Task, *given: Any) -> Any:
        run = end_run(task, *given)
        task.usage = task.usage_before = None
        return run

    return forgetting


def holding_nothing(add_hold: Fault) -> Fault:
    """What was cancelled frees its target and its slot at once."""
    return lambda *_: None


def drifting(tick_after: Fault) -> Fault:
    """An interval begins anew with each tick, instead of keeping its phase."""

    def later(schedule: Schedule, after: Any) -> Any:
        schedule.next_at = None if schedule.cron is None else schedule.next_at
        return tick_after(schedule, after)

    return later


def outliving(check_open: Fault) -> Fault:
    """A credential lives on when its run is over."""

    async def unchecked(*_: Any) -> None:
        return

    return unchecked


def telling_apart(start: Fault) -> Fault:
    """A run that was started without its number counts as fenced."""

    def fenced(task: Task, *given: Any) -> None:
        start(task, *given)
        task.unfenced = False

    return fenced


def pulling_down(apply: Fault) -> Fault:
    """One task that is refused takes those behind it along, of those that are submitted each by itself."""

    def falling(command: SubmitEach, work: UnitOfWork) -> Any:
        taken = apply(SubmitEach(principal=command.principal, room=command.room, items=command.items[:1]), work)
        if isinstance(taken[0], TreadleError):
            return [*taken, *(TaskConflict("so are those behind it") for _ in command.items[1:])]
        return apply(command, work)

    return falling


def giving_up(apply: Fault) -> Fault:
    """One report that is refused hides those behind it."""

    def first_alone(command: ReportMany, work: UnitOfWork) -> Any:
        refused = apply(command, work)
        return dict(list(refused.items())[:1])

    return first_alone


def hasty(do_work: Fault) -> Fault:
    """Who asks is answered before the commit (G1)."""

    async def told_at_once(work: UnitOfWork, reads: Any, taken: Any, commands: Any) -> None:
        await do_work(work, reads, taken, commands)
        for pending in commands:
            pending.send_answer()

    return told_at_once


def blaming(turn: Fault) -> Fault:
    """A server that begins after another was killed takes what was not renewed meanwhile."""

    async def at_once(sweeper: Any) -> float:
        if sweeper._last is None:
            clock = sweeper._engine.clock
            sweeper._last, sweeper._stamped_at = (clock.monotonic(), clock.now().timestamp()), clock.now()
        return await turn(sweeper)  # type: ignore[no-any-return]

    return at_once


def forgetting_keys(keep_claims: Fault) -> Fault:
    """What was claimed under a key is not kept: who asks again is given more."""

    async def kept_nowhere(tx: Any, new: Any, now: Any) -> set[Any]:
        return {(row.worker_id, row.key) for row in new}

    return kept_nowhere


def editing_what_changed(edit_command: Fault) -> Fault:
    """Of many edits none looks at the version that it names."""

    def blindly(ctx: Any, principal: Any, task_id: Any, wanted: Any, known: Any) -> Any:
        return edit_command(ctx, principal, task_id, wanted.model_copy(update={"if_version": None}), known)

    return blindly


def sleeping_on(wake: Fault) -> Fault:
    """A task that waits for a message sleeps on when it has come."""
    return lambda *_: None


def remembering(clear_steps: Fault) -> Fault:
    """A rerun keeps the steps of the runs before."""
    return lambda *_: None


def forgetting_uses(delete_ended_uses: Fault) -> Fault:
    """What was cancelled or lost gives its room in limits free at once, while its code runs on."""

    async def at_once(tx: Any, seqs: Any) -> Any:
        found = await delete_ended_uses(tx, seqs)
        held = "task_seq {0} AND EXISTS (SELECT 1 FROM holds h WHERE h.task_seq = limit_uses.task_seq)"
        text = f"DELETE FROM limit_uses WHERE {held} RETURNING limit_num, bucket"
        rows = await limit_rows.fetch(tx, text.format("IN (SELECT value FROM json_each(?))"), "", sorted(seqs))
        return found | {BucketId(*row) for row in rows}

    return at_once


def slipping_past(admits: Fault) -> Fault:
    """A claim takes what was let through when there was still room, without another look."""
    return lambda *_: True


PLANTED = {
    "forgetting uses": (limit_rows, "delete_ended_uses", forgetting_uses),
    "slipping past": (Gate, "admits", slipping_past),
    "sleeping on": (step_commands, "_wake", sleeping_on),
    "remembering": (steering, "clear_steps", remembering),
    "forgetting keys": (assignments, "keep_claims", forgetting_keys),
    "editing what changed": (bulk, "edit_command", editing_what_changed),
    "overtaking": (LaneHead, "first", overtaking),
    "refilling": (life, "end_run", refilling),
    "holding nothing": (UnitOfWork, "add_hold", holding_nothing),
    "drifting": (Schedule, "tick_after", drifting),
    "outliving": (Credentials, "check_open", outliving),
    "telling apart": (life, "start", telling_apart),
    "pulling down": (SubmitEach, "apply", pulling_down),
    "giving up": (ReportMany, "apply", giving_up),
    "hasty": (engine, "apply", hasty),
    "blaming": (Sweeper, "turn", blaming),
}


LONGER = {
    *("drifting", "editing what changed", "forgetting keys", "outliving", "refilling", "remembering", "sleeping on"),
    *("telling apart", "forgetting uses", "holding nothing", "slipping past", "pulling down"),
}
"""Those that take up to 160 programs, for which a machine that others use has not the time at every run."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONGER else name for name in PLANTED]
)
def test_a_planted_fault_is_found(name: str, sqlite_template: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, attribute, fault = PLANTED[name]
    monkeypatch.setattr(place, attribute, fault(getattr(place, attribute)))
    search = Search(partial(on_sqlite, template=sqlite_template), patience=0.0)

    with pytest.raises(AssertionError, match="replay"):
        search.run(0, LONGEST if name in LONGER else SECONDS)

    print(f"{name}: found after {search.runs} programs, {search.seconds:.1f} s of the processor")
