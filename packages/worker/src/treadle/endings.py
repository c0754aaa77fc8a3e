"""How a run's end becomes a report: results, errors and the outcomes that exceptions stand for."""

import traceback
from typing import Any

from pydantic_core import to_jsonable_python

from treadle.errors import InvalidArguments
from treadle.outcomes import Intermittent, Interrupted, MalformedPayload, Pause, ResourceUnavailable, Retry
from treadle.wire.status import Reason

Ending = dict[str, Any]
"""The fields of a report that ends a run, without the run's name."""

LONGEST_TEXT = 1_000_000
"""Characters of an error or traceback at most, as the wire models have it."""


def completed(result: Any) -> Ending:
    """Return the report of a run that returned; a result that is no JSON fails it with the reason."""
    try:
        return {"kind": "completed", "result": to_jsonable_python(result)}
    except ValueError as error:
        return {
            "kind": "failed",
            "error": f"the result, {type(result).__name__}, is no JSON: {clean(str(error))}; return plain data",
        }


def raised(error: BaseException) -> Ending:
    """Return the report of a run that raised: an outcome, or a failure with the whole traceback."""
    message = clean(str(error))
    match error:
        case Retry():
            ending: Ending = {"kind": "failed", "error": message, "traceback": trace_of(error)}
            return ending if error.after is None else ending | {"retry_after": error.after}
        case Pause():
            ending = {"kind": "paused", "detail": message}
            return ending if error.checkpoint is None else ending | {"checkpoint": to_jsonable_python(error.checkpoint)}
        case MalformedPayload() | InvalidArguments():
            return _exception(Reason.MALFORMED_PAYLOAD, error)
        case ResourceUnavailable():
            return _exception(Reason.RESOURCE_UNAVAILABLE, error)
        case Intermittent():
            return _exception(Reason.INTERMITTENT_TASK, error)
        case Interrupted():
            return {"kind": "failed", "error": message}
        case _:
            text = f"{type(error).__name__}: {message}" if message else type(error).__name__
            return {"kind": "failed", "error": text, "traceback": trace_of(error)}


def malformed(explanation: str) -> Ending:
    """Return the report of a task that can't be run as it is: never tried again."""
    return {"kind": "exception", "reason": Reason.MALFORMED_PAYLOAD.value, "error": clean(explanation)}


def timed_out(timeout: float, trace: str | None = None) -> Ending:
    """Return the report of a run that took longer than it may; `trace` shows where it was."""
    ending: Ending = {
        "kind": "failed",
        "reason": Reason.TIMEOUT.value,
        "error": f"the run took longer than its timeout of {timeout:g} s and was stopped",
    }
    return ending if trace is None else ending | {"traceback": trace}


def shut_down() -> Ending:
    """Return the report of a run that its worker stopped in order to go."""
    return {"kind": "exception", "reason": Reason.WORKER_SHUTDOWN.value, "error": "the worker was shut down"}


def trace_of(error: BaseException) -> str:
    """Return the whole traceback, causes and groups included, without the frames of this package."""
    shown = error.__traceback__
    while shown is not None and shown.tb_next is not None and _is_ours(shown.tb_frame.f_globals.get("__name__", "")):
        shown = shown.tb_next
    return clean("".join(traceback.format_exception(type(error), error, shown)))


def clean(text: str) -> str:
    """Return text that every store keeps: no NUL, no lone surrogates, not longer than the wire allows."""
    if "\x00" in text or not text.isascii():
        text = text.replace("\x00", "\\x00").encode(errors="backslashreplace").decode()
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2 - 50
    return f"{text[:half]}\n… {len(text) - 2 * half} characters left out …\n{text[-half:]}"


def _exception(reason: Reason, error: BaseException) -> Ending:
    return {"kind": "exception", "reason": reason.value, "error": clean(str(error)), "traceback": trace_of(error)}


def _is_ours(module: str) -> bool:
    return module in {"treadle.calls", "treadle.threads", "treadle.child", "treadle.tasks"}
