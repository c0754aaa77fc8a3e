"""Exceptions that a task's code raises to end its run other than by returning.

TaskOutcome
├── Retry                 failed; try again after a delay that the code chooses
├── Pause                 stop here and keep the checkpoint until someone resumes the task
├── MalformedPayload      the payload is invalid: never try again
├── ResourceUnavailable   something that the task needs does not exist: never try again
├── Intermittent          not the task's fault: run it again, at the cost of a requeue
└── Interrupted           the run should stop; raised by `Context.raise_if_cancelled`

`Suspend`, which `Context.sleep` and `Context.receive` raise to end a run, is not one of them: no `except Exception` may
catch it.
"""

from datetime import timedelta
from typing import Any

from treadle.client.options import duration
from treadle.pickling import Picklable
from treadle.values import brief
from treadle.wire.amounts import in_seconds
from treadle.wire.fields import TEN_YEARS


class TaskOutcome(Picklable, Exception):
    """The base of exceptions that end a run and are not ordinary errors."""


class Retry(TaskOutcome):
    """Fail, and try again after `after` (seconds or a timedelta; None: the task's own back-off), while retries last.

    Raises `ValueError` for an invalid duration, one below 0, or one longer than ten years.
    """

    def __init__(self, after: float | timedelta | None = None, message: str = "") -> None:
        super().__init__(message or "the task asked for a retry")
        self.after: float | None = duration(after)
        if after is not None and not (self.after is not None and 0 <= self.after <= TEN_YEARS):
            raise ValueError(
                f"Retry(after={brief(after)}): write seconds from 0 up, at most {TEN_YEARS:,.0f} (ten years), or a"
                " timedelta"
            )


class Pause(TaskOutcome):
    """Stop, and keep the task paused until someone resumes it.

    If `checkpoint` is given, it replaces what was saved before; the next run gets it.
    """

    def __init__(self, detail: str = "", *, checkpoint: Any = None) -> None:
        super().__init__(detail or "the task paused itself")
        self.checkpoint = checkpoint


class MalformedPayload(TaskOutcome):
    """The payload is invalid: the task fails and is never tried again."""


class ResourceUnavailable(TaskOutcome):
    """Something that the task needs doesn't exist: the task fails and is never tried again."""


class Intermittent(TaskOutcome):
    """The failure is not the task's fault: it is put back in the queue, at the cost of a requeue."""


class Suspend(Picklable):
    """The code sleeps or waits for a message, and its run ends here. Let it through, as `except Exception` does.

    `step` and `occurrence` identify the step by which it waits; `seconds` is how long it waits at most.
    """

    def __init__(self, step: str, occurrence: int, seconds: float, *, receives: bool) -> None:
        super().__init__(f"the run ends, and the task continues in {in_seconds(seconds)} at the latest")
        self.step = step
        self.occurrence = occurrence
        self.seconds = seconds
        self.receives = receives


class Interrupted(TaskOutcome):
    """The run was cancelled, paused or taken away, and the code noticed."""
