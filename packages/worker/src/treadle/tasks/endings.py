"""How a run's end becomes a report: results, errors, and the outcomes that exceptions stand for."""

import traceback
from collections.abc import Mapping
from typing import Any

from treadle.errors import BadValue, DefinitionError, InvalidArguments, NotAwaited, StepMismatch, WouldBlock
from treadle.tasks.outcomes import (
    Intermittent,
    Interrupted,
    MalformedPayload,
    Pause,
    ResourceUnavailable,
    Retry,
    Suspend,
    TaskOutcome,
)
from treadle.tasks.returned import Returned
from treadle.tasks.verdicts import Verdicts, leaves_of
from treadle.values import asked, check_no_secret, clean, named, plain, said_by
from treadle.wire.amounts import in_seconds
from treadle.wire.status import Reason

_FINAL = (
    BadValue,
    DefinitionError,
    InvalidArguments,
    MalformedPayload,
    NotAwaited,
    ResourceUnavailable,
    StepMismatch,
    WouldBlock,
)
"""Errors that no further attempt can mend."""

_ANYTHING = Returned()

Ending = dict[str, Any]
"""The fields of a report that ends a run, without those that identify the run."""


def completed(result: Any, returns: Returned = _ANYTHING) -> Ending:
    """Return the report of a run that returned; a result that can't be kept fails it for good, and names the place."""
    try:
        return {"kind": "completed", "result": returns.write(result, "result")}
    except BadValue as error:
        return unkeepable(str(error))


def unkeepable(explanation: str) -> Ending:
    """Return the report of a run whose result or checkpoint can't be kept; its code has run, so it is not retried."""
    return {"kind": "exception", "reason": Reason.INTERNAL_ERROR.value, "error": clean(explanation)}


def refused(kind: str, detail: object) -> Ending:
    """Return the report of a run whose end was not taken; one that is too large may not even have been sent."""
    what = {"completed": "result", "paused": "checkpoint"}.get(kind, kind)
    return unkeepable(f"{what}: can't be kept: {detail}"[:10_000])


def raised(error: BaseException, verdicts: Verdicts | None = None) -> Ending:
    """Return the report of a run that raised: an outcome, or a failure with the whole traceback.

    `verdicts` are the task's rules for exceptions.
    """
    if (asleep := _suspended(error)) is not None:
        return asleep
    if verdicts is not None and verdicts.is_final(error):
        return _exception(Reason.INTERNAL_ERROR, error, error) | {"error": named(error)}
    decisive = meant(error)
    message = said_by(decisive)
    match decisive:
        case Retry():
            ending: Ending = {"kind": "failed", "error": message, "traceback": trace_of(error)}
            return ending if decisive.after is None else ending | {"retry_after": decisive.after}
        case Pause():
            return _paused(message, decisive.checkpoint)
        case MalformedPayload():
            return _exception(Reason.MALFORMED_PAYLOAD, decisive, error)
        case ResourceUnavailable():
            return _exception(Reason.RESOURCE_UNAVAILABLE, decisive, error)
        case Intermittent():
            return _exception(Reason.INTERMITTENT_TASK, decisive, error)
        case _ if isinstance(decisive, _FINAL):
            # The task's own arguments were validated before its code began: these were the code's, to something else.
            return _exception(Reason.INTERNAL_ERROR, decisive, error)
        case Interrupted():
            return {"kind": "failed", "error": message}
        case _:
            return {"kind": "failed", "error": named(error), "traceback": trace_of(error)}


def meant(error: BaseException) -> BaseException:
    """Return the exception that decides how a run ends; for a group, such as from `asyncio.TaskGroup`, one within it.

    That is one that no further attempt can mend, or the first one if the group contains only outcomes. If it contains
    outcomes and other errors, the outcomes may have been raised without knowing of the errors: then the group decides.
    An exception that is not a group decides itself.
    """
    leaves = list(leaves_of(error))
    for one in leaves:
        if isinstance(one, _FINAL):
            return one
    return leaves[0] if all(isinstance(one, TaskOutcome) for one in leaves) else error


def _suspended(error: BaseException) -> Ending | None:
    """Return the report of code that sleeps or waits and raised nothing else, perhaps in a group of tasks."""
    first, *others = leaves_of(error)
    if not isinstance(first, Suspend) or not all(isinstance(other, Suspend) for other in others):
        return None
    ending: Ending = {"kind": "suspended", "step": first.step, "occurrence": first.occurrence}
    return ending | {"seconds": first.seconds, "receives": first.receives}


def _paused(message: str, checkpoint: Any) -> Ending:
    ending = {"kind": "paused", "detail": message}
    if checkpoint is None:
        return ending
    try:
        data = plain(checkpoint, "checkpoint")
        check_no_secret(checkpoint, data, "checkpoint")
    except BadValue as error:
        return unkeepable(str(error))
    return ending | {"checkpoint": data}


def malformed(explanation: str) -> Ending:
    """Return the report of a task that can't be run as it is, and is never retried."""
    return {"kind": "exception", "reason": Reason.MALFORMED_PAYLOAD.value, "error": clean(explanation)}


def timed_out(timeout: float, trace: str | None = None, *, runs_on: bool = False) -> Ending:
    """Return the report of a run that exceeded its timeout; `trace` shows where it was.

    With `runs_on` its code goes on all the same, as that of a thread.
    """
    what = "; its code can't be stopped, and goes on until it ends by itself" if runs_on else " and was stopped"
    ending: Ending = {
        "kind": "failed",
        "reason": Reason.TIMEOUT.value,
        "error": f"the run took longer than its timeout of {in_seconds(timeout)}{what}",
    }
    return ending if trace is None else ending | {"traceback": trace}


def shut_down() -> Ending:
    """Return the report of a run that its worker stopped in order to exit."""
    return {"kind": "exception", "reason": Reason.WORKER_SHUTDOWN.value, "error": "the worker was shut down"}


def trace_of(error: BaseException) -> str:
    """Return the whole traceback, with causes and groups, without the frames of this package.

    If the error can't be formatted, because it holds values that its class never has or is nested too deeply, the
    traceback has only the frames.
    """
    shown = error.__traceback__
    while shown is not None and shown.tb_next is not None and _is_ours(shown.tb_frame.f_globals):
        shown = shown.tb_next

    def otherwise(odd: BaseException) -> list[str]:
        told = f"{named(error)}\n(its traceback can't be written out: {named(odd)})"
        return ["Traceback (most recent call last):\n", *traceback.format_tb(shown), told]

    return clean("".join(asked(lambda: traceback.format_exception(type(error), error, shown), otherwise)))


def _exception(reason: Reason, decisive: BaseException, error: BaseException) -> Ending:
    return {"kind": "exception", "reason": reason.value, "error": said_by(decisive), "traceback": trace_of(error)}


def _is_ours(module: Mapping[str, Any]) -> bool:
    # A child process runs its module as `__main__`.
    return getattr(module.get("__spec__"), "name", module.get("__name__")) in {
        "treadle.isolation.child",
        "treadle.isolation.loading",
        "treadle.isolation.threads",
        "treadle.tasks.definition",
        "treadle.tasks.step_calls",
        "treadle.tasks.steps",
        "treadle.worker.calls",
        "treadle.worker.middleware",
    }
