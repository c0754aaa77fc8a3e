"""Claims, and what workers report about the runs that they claimed."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from treadle.wire.fields import (
    MOST_OF_REQUEST,
    Amount,
    Flag,
    GivenInstant,
    GivenJson,
    GivenReason,
    Instant,
    LongText,
    Model,
    Request,
    Seconds,
    Share,
    Text,
)
from treadle.wire.flows import Dependency
from treadle.wire.ids import Uuid
from treadle.wire.sealed import MARK, seal_of_text
from treadle.wire.status import Reason
from treadle.wire.steps import Occurrence, StepItem
from treadle.wire.tasks import TaskItem
from treadle.wire.workers import RunRef

LINES_AT_ONCE = 1000
"""The most log lines of a task that are sent or shown at once."""

MOST_MESSAGE = 1000
"""The most characters of a progress message."""

MOST_SEALED_MESSAGE = 8000
"""The most characters of an encrypted progress message."""


def _short(message: str) -> str:
    most = MOST_MESSAGE if seal_of_text(message) is None else MOST_SEALED_MESSAGE
    if len(message) > most:
        raise ValueError(f"at most {most} characters, not {len(message)}")
    return message


ProgressMessage = Annotated[
    str,
    AfterValidator(_short),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "maxLength": MOST_MESSAGE},
                {"type": "string", "maxLength": MOST_SEALED_MESSAGE, "pattern": f"^<{MARK}:[A-Za-z0-9_.,-]+={{0,2}}>$"},
            ]
        }
    ),
]
"""A message of up to 1,000 characters, or an encrypted one of up to 8,000."""


def runs_without_cost(before: int, *, spent: int) -> int:
    """Return how many of the runs before this one cost no budget, beyond those that the task's steps explain.

    `before` is this run's number, `spent` its task's retries, requeues and steps together. They may have been put
    back because their start was never reported: the code crashed its worker before the worker could report it.
    """
    return before - spent


class ClaimRequest(Request):
    """Asks for tasks: `POST /v1/tasks/claim`."""

    worker_id: Uuid
    tasks: Annotated[int, Field(strict=True, ge=1, le=100)] = 1
    wait: Annotated[float, Field(strict=True, ge=0, le=20)] = 0


class Claim(TaskItem):
    """A claimed task: its current run is this worker's until `taken_until`."""

    seconds_left: float = 0.0
    credentials: str | None = Field(default=None, repr=False)
    """A temporary credential, for this run and the task's scopes only."""
    traceparent: str | None = None
    """The trace context of the task's submit, as a W3C traceparent."""
    tracestate: str | None = None
    baggage: str | None = None
    dependencies: dict[str, Dependency | list[Dependency]] = Field(default_factory=dict)
    """The task's dependencies by name, with their results."""
    results_left_out: bool = False
    """Whether results and errors were left out because they exceed 1 MiB; the run's credential can read each task."""
    kept_steps: list[StepItem] | None = None
    """All kept steps, if they are few and small; otherwise left out, and `steps` says how many there are to read."""


class ClaimAnswer(Model):
    """All claims, and the first of them or null."""

    task: Claim | None = None
    tasks: list[Claim] = Field(default_factory=list)


class Completed(Request):
    """The code returned."""

    result: GivenJson = None
    usage: Amount | None = None


class Failed(Request):
    """The code raised or timed out; the task is retried while retries last."""

    error: LongText = ""
    traceback: LongText | None = None
    reason: Literal[Reason.ERROR, Reason.TIMEOUT] = Reason.ERROR
    usage: Amount | None = None
    retry_after: Seconds | None = None
    """Seconds until the retry, instead of the back-off."""
    code_runs: Flag = False
    """Whether the code still runs, as a thread that ignores its timeout does: its slot stays taken until `stopped`."""


class ExceptionReport(Request):
    """Something other than the code ended the run."""

    reason: GivenReason
    error: LongText | None = None
    traceback: LongText | None = None
    usage: Amount | None = None
    code_runs: Flag = False
    """As in `Failed`."""


class Paused(Request):
    """The code stopped for a pause, which somebody else or the code itself requested."""

    checkpoint: GivenJson = None
    usage: Amount | None = None
    detail: LongText | None = None


class Checkpoint(Request):
    """The checkpoint that the next run gets besides the payload."""

    checkpoint: GivenJson


class Progress(Request):
    """How far the run is: a share between 0 and 1, a message, or both."""

    share: Share | None = None
    message: ProgressMessage | None = None


Level = Literal["debug", "info", "warning", "error", "critical"]
"""The level of a log line."""


class LogLine(Request):
    """One line that the task's code logged."""

    at: GivenInstant | None = None
    level: Level = "info"
    message: LongText


class Logs(Request):
    """Lines that the task's code logged, in order."""

    lines: list[LogLine] = Field(min_length=1, max_length=LINES_AT_ONCE)


class LogItem(Model):
    """A kept log line."""

    run_id: int
    at: Instant
    level: str
    message: str


class TaskLogItem(LogItem):
    """A kept log line, in a list that covers several tasks."""

    id: str
    """The line's id."""
    line: int
    """Orders lines of the same instant: the later line has the higher number."""
    task_id: str
    job_name: str


class Report(RunRef):
    """One of a worker's reports; `kind` says which of the other fields apply."""

    kind: Literal[
        "started", "completed", "failed", "exception", "paused", "suspended", "stopped", "checkpoint", "progress",
        "logs", "step",
    ]  # fmt: skip
    starts: Flag = False
    """Whether this report of the end also reports the start, which was not reported before."""
    result: GivenJson = None
    error: LongText | None = None
    traceback: LongText | None = None
    reason: Reason | None = None
    usage: Amount | None = None
    retry_after: Seconds | None = None
    checkpoint: GivenJson = None
    share: Share | None = None
    message: ProgressMessage | None = None
    detail: LongText | None = None
    lines: list[LogLine] | None = Field(default=None, max_length=LINES_AT_ONCE)
    code_runs: Flag = False
    """For `failed` and `exception`: whether the code is still running, and keeps its slot until `stopped`."""
    step: Text | None = None
    """For `step` and `suspended`, as are the four fields below: see `StepDone` and `Suspended`."""
    occurrence: Occurrence = 0
    function: Text | None = None
    seconds: Seconds | None = None
    receives: Flag = False


class Reports(Request):
    """Many reports in one request, each with its own answer: `POST /v1/workers/{id}/reports`."""

    reports: list[Report] = Field(min_length=1, max_length=MOST_OF_REQUEST)


class ReportAnswer(Model):
    """The answer to one report of many."""

    task_id: str | None = None
    """As in the report; null if it was not an id."""
    run_id: int | None = None
    status: int
    """The HTTP status: 200, or the problem's."""
    type: str | None = None
    detail: str | None = None


class ReportsAnswer(Model):
    """The answers, in the order of the reports."""

    answers: list[ReportAnswer]
