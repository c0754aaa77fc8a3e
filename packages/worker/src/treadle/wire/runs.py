"""Claims, and what a worker reports about the run that it claimed."""

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
"""Log lines of a task that are told, and shown, at once."""

MOST_MESSAGE = 1000
"""Characters of a message of progress."""

MOST_SEALED_MESSAGE = 8000
"""Characters of one that is sealed."""


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
"""A message of up to 1,000 characters, or a sealed one of up to 8,000."""


def runs_without_cost(before: int, *, spent: int) -> int:
    """Return how many of the runs before this one cost no budget, beyond those that the task's steps explain.

    `before` is this run's number, `spent` its task's retries, requeues and steps together. They may have gone back
    because nothing was heard of their start: their code ended its worker, by a crash, before that had told of it.
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
    """A temporary credential that reaches this run and the task's scopes only."""
    traceparent: str | None = None
    """The context of its submit, as W3C writes it."""
    tracestate: str | None = None
    baggage: str | None = None
    dependencies: dict[str, Dependency | list[Dependency]] = Field(default_factory=dict)
    """The tasks that it waited for, by name, with their results."""
    results_left_out: bool = False
    """Whether results and errors were left out, being more than 1 MiB: the run's credential reads each task."""
    kept_steps: list[StepItem] | None = None
    """All steps that it keeps, while they are few and small; left out, `steps` says how many are to be read."""


class ClaimAnswer(Model):
    """The first claim, or null; and all of them."""

    task: Claim | None = None
    tasks: list[Claim] = Field(default_factory=list)


class Completed(Request):
    """The code returned."""

    result: GivenJson = None
    usage: Amount | None = None


class Failed(Request):
    """The code raised, or ran out of its time; it is tried again while retries last."""

    error: LongText = ""
    traceback: LongText | None = None
    reason: Literal[Reason.ERROR, Reason.TIMEOUT] = Reason.ERROR
    usage: Amount | None = None
    retry_after: Seconds | None = None
    """Seconds until the retry, instead of the back-off."""
    code_runs: Flag = False
    """Whether the code runs on, as a thread does that ignores its timeout: its slot stays taken until `stopped`."""


class ExceptionReport(Request):
    """Something else than the code ended the run."""

    reason: GivenReason
    error: LongText | None = None
    traceback: LongText | None = None
    usage: Amount | None = None
    code_runs: Flag = False
    """As in `Failed`."""


class Paused(Request):
    """The code stopped because it was asked to, or asked for it itself."""

    checkpoint: GivenJson = None
    usage: Amount | None = None
    detail: LongText | None = None


class Checkpoint(Request):
    """What the next run shall get beside the payload."""

    checkpoint: GivenJson


class Progress(Request):
    """How far the run is: a share between 0 and 1, a message, or both."""

    share: Share | None = None
    message: ProgressMessage | None = None


Level = Literal["debug", "info", "warning", "error", "critical"]
"""How grave a line of the log is."""


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
    """A kept log line among those of several tasks."""

    id: str
    """Names the line."""
    line: int
    """Ascends with the clock: of two lines of the same instant the later one has the higher number."""
    task_id: str
    job_name: str


class Report(RunRef):
    """One of a worker's reports: `kind` says which of the others' fields count."""

    kind: Literal[
        "started", "completed", "failed", "exception", "paused", "suspended", "stopped", "checkpoint", "progress",
        "logs", "step",
    ]  # fmt: skip
    starts: Flag = False
    """Whether the start, which was not reported before, is told with this end."""
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
    """Of `failed` and `exception`: whether the code runs on, and keeps its slot until `stopped`."""
    step: Text | None = None
    """Of `step` and `suspended`, with the four below: as in `StepDone` and `Suspended`."""
    occurrence: Occurrence = 0
    function: Text | None = None
    seconds: Seconds | None = None
    receives: Flag = False


class Reports(Request):
    """Many reports in one request, each with its own answer: `POST /v1/workers/{id}/reports`."""

    reports: list[Report] = Field(min_length=1, max_length=MOST_OF_REQUEST)


class ReportAnswer(Model):
    """How one report of many was taken."""

    task_id: str | None = None
    """As the report named it; null when that was no id."""
    run_id: int | None = None
    status: int
    """As over HTTP: 200, or the problem's status."""
    type: str | None = None
    detail: str | None = None


class ReportsAnswer(Model):
    """The answers, in the order of the reports."""

    answers: list[ReportAnswer]
