"""Logging of failed runs, and the reports, log lines and refusals of runs that were told to stop."""

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
"""The exceptions with which code ends that stops as it was told to."""


def log_end(held: Held, ending: Ending, error: BaseException | None) -> None:
    """Log what is lost of a run that was told to stop: its result, or an error raised while it cleaned up."""
    if ending["kind"] == "completed":
        if held.stop not in {"pause", "shutdown"}:
            log.warning("dropped the late result of task %s, run %s", *held.key)
    elif error is not None and not isinstance(error, _QUIET):
        log.warning("task %s, run %s, raised while being stopped (%s)", *held.key, held.stop, exc_info=error)


def log_failure(held: Held, ending: Ending) -> None:
    """Log how a run failed, with its whole traceback; the record has the fields task, run and job.

    After a timeout it says so, because the traceback, if any, ends in what stopped the code. It also says why a result
    or checkpoint can't be kept, which has no traceback.
    """
    reason, trace = ending.get("reason"), ending.get("traceback")
    says_why = reason == Reason.TIMEOUT or (reason == Reason.INTERNAL_ERROR and trace is None)
    if ending["kind"] in {"failed", "exception"} and (says_why or trace is not None):
        task_id, run_id = held.key
        job = held.claim["job_name"]
        of = {"task": task_id, "run": run_id, "job": job}
        if log.isEnabledFor(logging.ERROR):
            place, line, function, _ = log.findCaller()
            said = "task %s, run %s, of %s failed%s"
            args = (task_id, run_id, job, f": {ending['error']}" if says_why else "")
            record = log.makeRecord(log.name, logging.ERROR, place, line, said, args, None, function, of)
            if trace is not None:
                # The traceback may come from another process, as text: formatters write `exc_text` like that of an
                # exception.
                record.exc_text = trace.rstrip()
            log.handle(record)


def stopped(held: Held, ending: Ending | None, error: BaseException | None) -> Ending:
    """Return the report of a run whose code was told to stop, given how it ended then."""
    # A suspended run has come as far as it can: the server pauses it there, if that was asked for.
    has_ended = ending is not None and ending["kind"] in {"completed", "suspended"}
    match held.stop:
        case "pause" if not has_ended:
            return _paused(ending, error)
        case "shutdown" if not has_ended:
            return endings.shut_down()
        case "timeout":
            # Where a process was when it was killed is unknown.
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
"""Reasons for which a run is no longer this worker's; a paused or handed-back run is, until that is reported."""


def check_ours(held: Held) -> None:
    """Raise `StaleRun` when the run was cancelled or lost (C4); one that is paused or handed back is still ours."""
    if held.stop in _LOST:
        task_id, run_id = held.key
        detail = f"run {run_id} of task {task_id} is no longer this worker's ({held.stop}): nothing was uploaded"
        raise StaleRun(problem_named("stale-run", detail))
