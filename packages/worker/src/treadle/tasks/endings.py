"""How a run's end becomes a report: results, errors and the outcomes that exceptions stand for."""

import traceback
from collections.abc import Mapping
from typing import Any

from treadle.errors import BadValue, DefinitionError, InvalidArguments, StepMismatch, WouldBlock
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
    ResourceUnavailable,
    StepMismatch,
    WouldBlock,
)
"""What no further try mends."""

_ANYTHING = Returned()

Ending = dict[str, Any]
"""The fields of a report that ends a run, without the run's name."""


def completed(result: Any, returns: Returned = _ANYTHING) -> Ending:
    """Return the report of a run that returned; a result that can't be kept fails it for good, and names the place."""
    try:
        return {"kind": "completed", "result": returns.write(result, "result")}
    except BadValue as error:
        return spoilt(str(error))


def spoilt(explanation: str) -> Ending:
    """Return the report of a run whose result or checkpoint can't be kept: its code has run, and is not run again."""
    return {"kind": "exception", "reason": Reason.INTERNAL_ERROR.value, "error": clean(explanation)}


def refused(kind: str, detail: object) -> Ending:
    """Return the report of a run whose end the server does not take: it is too large, for instance."""
    what = {"completed": "result", "paused": "checkpoint"}.get(kind, kind)
    return spoilt(f"{what}: the server refused it: {detail}"[:10_000])


def raised(error: BaseException, verdicts: Verdicts | None = None) -> Ending:
    """Return the report of a run that raised: an outcome, or a failure with the whole traceback.

    `verdicts` is what the task says of its exceptions.
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
            # The task's own arguments were read before its code began: these are what the code gave to something else.
            return _exception(Reason.INTERNAL_ERROR, decisive, error)
        case Interrupted():
            return {"kind": "failed", "error": message}
        case _:
            return {"kind": "failed", "error": named(error), "traceback": trace_of(error)}


def meant(error: BaseException) -> BaseException:
    """Return what decides how a run ends: of a group, such as `asyncio.TaskGroup` raises, what stands in it.

    That is what no further try mends, or the first of outcomes when it holds nothing else. Of an outcome beside errors
    nobody knows whether it knew of them: then it is the group, as it is what is no group.
    """
    leaves = list(leaves_of(error))
    for one in leaves:
        if isinstance(one, _FINAL):
            return one
    return leaves[0] if all(isinstance(one, TaskOutcome) for one in leaves) else error


def _suspended(error: BaseException) -> Ending | None:
    """Return the report of code that sleeps or waits, and raised nothing else, be it in a group of tasks."""
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
        return spoilt(str(error))
    return ending | {"checkpoint": data}


def malformed(explanation: str) -> Ending:
    """Return the report of a task that can't be run as it is: never tried again."""
    return {"kind": "exception", "reason": Reason.MALFORMED_PAYLOAD.value, "error": clean(explanation)}


def timed_out(timeout: float, trace: str | None = None) -> Ending:
    """Return the report of a run that took longer than it may; `trace` shows where it was."""
    ending: Ending = {
        "kind": "failed",
        "reason": Reason.TIMEOUT.value,
        "error": f"the run took longer than its timeout of {in_seconds(timeout)} and was stopped",
    }
    return ending if trace is None else ending | {"traceback": trace}


def shut_down() -> Ending:
    """Return the report of a run that its worker stopped in order to go."""
    return {"kind": "exception", "reason": Reason.WORKER_SHUTDOWN.value, "error": "the worker was shut down"}


def trace_of(error: BaseException) -> str:
    """Return the whole traceback, causes and groups included, without the frames of this package.

    Of an error that can't be written out, for it holds what its class never has or is too deep, it has the frames.
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
