"""What is logged of a run that failed, and what is reported, logged and refused of one that was told to stop."""

import asyncio
import logging

from treadle.errors import StaleRun, problem_named
from treadle.isolation.processes import ChildDied
from treadle.isolation.threads import Lacking
from treadle.tasks import endings
from treadle.tasks.endings import Ending
from treadle.tasks.outcomes import Interrupted, Suspend
from treadle.wire.status import Reason
from treadle.worker.lease import Held
from treadle.worker.middleware import RaisedInProcess

log: logging.Logger = logging.getLogger("treadle.worker")

_QUIET = (asyncio.CancelledError, Interrupted, StaleRun, Suspend, ChildDied, Lacking, RaisedInProcess)
"""What code that stops as it was told to ends with."""


def log_end(held: Held, ending: Ending, error: BaseException | None) -> None:
    """Tell what is lost of a run that was told to stop: its result, or what its cleaning up raised."""
    if ending["kind"] == "completed":
        if held.stop not in {"pause", "shutdown"}:
            log.warning("the late result of task %s, run %s, is dropped", *held.key)
    elif error is not None and not isinstance(error, _QUIET):
        log.warning("task %s, run %s, raised while it was stopped (%s)", *held.key, held.stop, exc_info=error)


def log_failure(held: Held, ending: Ending) -> None:
    """Log how a run failed, with its whole traceback; the record says of which task and run it is.

    Of one whose time was over it says so: the traceback, where there is one, ends in what stopped the code.
    """
    is_timeout = ending.get("reason") == Reason.TIMEOUT
    trace = ending.get("traceback")
    if ending["kind"] in {"failed", "exception"} and (is_timeout or trace is not None):
        task_id, run_id = held.key
        job = held.claim["job_name"]
        of = {"task": task_id, "run": run_id, "job": job}
        if log.isEnabledFor(logging.ERROR):
            place, line, function, _ = log.findCaller()
            said = "task %s, run %s, of %s failed%s"
            args = (task_id, run_id, job, f": {ending['error']}" if is_timeout else "")
            record = log.makeRecord(log.name, logging.ERROR, place, line, said, args, None, function, of)
            if trace is not None:
                # It may come from another process, as text: formatters write this as the traceback of an exception.
                record.exc_text = trace.rstrip()
            log.handle(record)


def stopped(held: Held, ending: Ending | None, error: BaseException | None) -> Ending:
    """Return what is reported of a run whose code was told to stop, from how it ended then."""
    # One that sleeps has come as far as it can: the server pauses it where it is, if that was asked for.
    has_ended = ending is not None and ending["kind"] in {"completed", "suspended"}
    match held.stop:
        case "pause" if not has_ended:
            return _paused(ending, error)
        case "shutdown" if not has_ended:
            return endings.shut_down()
        case "timeout":
            # Where a process was when it was killed nobody knows.
            trace = None if error is None or isinstance(error, ChildDied) else endings.trace_of(error)
            return endings.timed_out(held.claim["timeout"], trace)
        case "lease":
            return {
                "kind": "exception",
                "reason": "intermittent-task",
                "error": "the lease could not be renewed, and the code was stopped before it ended",
            }
        case "pause" | "shutdown" if ending is not None:
            return ending
        case _:
            return {"kind": "stopped"}


def _paused(ending: Ending | None, error: BaseException | None) -> Ending:
    paused: Ending = {"kind": "paused", "detail": "interrupted by user"}
    if ending is None or isinstance(error, _QUIET):
        return paused
    if ending["kind"] == "paused":
        return ending
    return paused | {"detail": f"interrupted by user; stopping raised {ending.get('error', '')}"}


_LOST = frozenset({"cancel", "gone", "lease"})
"""Why a run is no longer this worker's; one that is paused or handed back still is, until that is reported."""


def check_ours(held: Held) -> None:
    """Raise `StaleRun` when the run was cancelled or lost (C4); one that is paused or handed back still is ours."""
    if held.stop in _LOST:
        task_id, run_id = held.key
        detail = f"run {run_id} of task {task_id} is no longer this worker's ({held.stop}): nothing is uploaded"
        raise StaleRun(problem_named("stale-run", detail))
