"""Turns a worker's report on the wire into the engine's."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from treadle.wire.edits import TaskPatch
from treadle.wire.fields import MOST_OF_REQUEST, TEN_YEARS, Request
from treadle.wire.ids import TaskId, WorkerId, is_uuid
from treadle.wire.runs import LogLine, Report
from treadle.wire.values import LEAST_INTEGER, MOST_INTEGER, is_kept
from treadle_server.access.principal import Principal
from treadle_server.domain.instants import instant
from treadle_server.engine.commands import ReportMany, RunReport, StepReport
from treadle_server.errors import PayloadTooLarge, TreadleError, ValidationFailed
from treadle_server.operations import values
from treadle_server.operations.context import OperationContext


class ReportsOutline(Request):
    """Many reports in one request; each is validated by itself."""

    reports: list[Any] = Field(min_length=1, max_length=MOST_OF_REQUEST)


def from_body(kind: str, given: Request | None) -> RunReport:
    """Return the report of a route's body, which has the same fields. Raises the same as `from_report`."""
    return from_report(Report.model_construct(kind=kind, **dict(given or ())))


def from_report(report: Report) -> RunReport:
    """Return the engine's report.

    Raises `ValidationFailed` if a field that its kind needs is missing, or a time can't be stored.
    """
    kind, progress = report.kind, {"share": report.share, "message": report.message}
    if kind == "logs" and not report.lines:
        raise ValidationFailed("logs: needs lines")
    if kind == "checkpoint" and "checkpoint" not in report.model_fields_set:
        raise ValidationFailed("checkpoint: needs a checkpoint")
    null_is_kept = kind == "checkpoint"
    checkpoint = values.text_of(report.checkpoint) if null_is_kept else values.text_or_none(report.checkpoint)
    return RunReport(
        kind=kind,
        starts=report.starts,
        result=values.text_or_none(report.result) if kind in {"completed", "step"} else None,
        error=report.error if kind != "failed" else report.error or "",
        traceback=report.traceback,
        reason=report.reason,
        usage=report.usage,
        retry_after=report.retry_after,
        checkpoint=checkpoint if kind in {"checkpoint", "paused"} else None,
        progress=values.text_of(progress) if kind == "progress" else None,
        detail=report.detail,
        lines=_lines(report.lines) if kind == "logs" and report.lines else None,
        code_runs=report.code_runs and kind in {"failed", "exception"},
        step=_step(report),
    )


def _lines(lines: list[LogLine]) -> list[LogLine]:
    return [line.model_copy(update={"at": instant(line.at, "at")}) for line in lines]


def _step(report: Report) -> StepReport | None:
    if report.kind not in {"step", "suspended"}:
        return None
    if report.step is None:
        raise ValidationFailed(f"{report.kind}: needs step, the step's name")
    told = StepReport(name=report.step, occurrence=report.occurrence, seconds=report.seconds)
    if report.kind == "step":
        told.function = report.function
    else:
        told.receives = report.receives
        told.seconds = TEN_YEARS if report.seconds is None else report.seconds
    return told


_KINDS = {"running": "started", "completed": "completed", "failed": "failed", "paused": "paused"}


def from_patch(patch: TaskPatch) -> RunReport:
    """Return the report that an older client's update of the status stands for."""
    assert patch.status is not None
    kind = _KINDS.get(patch.status.value, "started")
    if kind == "failed" and patch.reason is not None and patch.reason.value not in {"error", "timeout"}:
        kind = "exception"
    return RunReport(
        kind=kind,
        result=values.text_or_none(patch.result) if kind == "completed" else None,
        error=patch.error,
        traceback=patch.traceback,
        reason=patch.reason,
        usage=patch.usage,
        checkpoint=values.text_or_none(patch.checkpoint),
    )


_PLAIN_KEYS = frozenset({"task_id", "run_id", "kind", "result", "starts"})
_PLAIN_KINDS = frozenset({"started", "completed"})


def _plain(ctx: OperationContext, reports: Sequence[Any]) -> list[tuple[TaskId, int, RunReport]] | None:
    """Return the reports if all of them are starts and completions of runs that this server knows; otherwise None.

    These need no validation by a model: their ids are looked up, and their results only have to be JSON.
    """
    plain: list[tuple[TaskId, int, RunReport]] = []
    for given in reports:
        if (report := _plain_report(ctx, given)) is None:
            return None
        plain.append(report)
    return plain


def _plain_report(ctx: OperationContext, given: Any) -> tuple[TaskId, int, RunReport] | None:
    if not (isinstance(given, dict) and given.keys() <= _PLAIN_KEYS):
        return None
    task_id, run_id, kind = given.get("task_id"), given.get("run_id"), given.get("kind")
    starts, result = given.get("starts", False), given.get("result")
    if (
        type(run_id) is not int
        or kind not in _PLAIN_KINDS
        or type(starts) is not bool
        or type(task_id) is not str
        or not ctx.engine.fast_reports.knows(TaskId(task_id))
        or not (0 <= run_id <= values.MOST_RUN_ID and is_kept(result))
    ):
        return None
    try:
        text = None if result is None or kind == "started" else values.text_of(result)
    except PayloadTooLarge:
        return None
    return TaskId(task_id), run_id, RunReport(kind=kind, result=text, starts=starts)


async def report_many(
    ctx: OperationContext, principal: Principal, worker_id: WorkerId | None, given: Sequence[Any]
) -> dict[int, TreadleError]:
    """Take the reports in their order; return the errors of those that were refused, by their places.

    Raises `ValidationFailed` if none of them is valid, and `StoreUnavailable` or `TooManyRequests` if one of them was
    refused with that: then all have to be sent again.
    """
    if (plain := _plain(ctx, given)) is not None:
        return await _take(ctx, principal, worker_id, plain)
    reports = await values.each(Report, given)
    if all(isinstance(report, TreadleError) for report in reports):
        raise next(report for report in reports if isinstance(report, TreadleError))
    taken: list[tuple[TaskId, int, RunReport]] = []
    places: list[int] = []
    refused: dict[int, TreadleError] = {}
    for i, report in enumerate(reports):
        if isinstance(report, TreadleError):
            refused[i] = report
            continue
        try:
            taken.append((TaskId(report.task_id), values.run_number(report.run_id), from_report(report)))
            places.append(i)
        except TreadleError as error:
            refused[i] = error
    if taken:
        found = await _take(ctx, principal, worker_id, taken)
        refused |= {places[i]: error for i, error in found.items()}
    return refused


async def _take(
    ctx: OperationContext,
    principal: Principal,
    worker_id: WorkerId | None,
    reports: list[tuple[TaskId, int, RunReport]],
) -> dict[int, TreadleError]:
    """Give reports to the engine; return the errors of those that were refused. Raises the same as `report_many`."""
    refused = await ctx.engine.run(ReportMany(principal=principal, worker_id=worker_id, reports=reports))
    for error in refused.values():
        if error.type.status >= 500 or error.type.status == 429:
            raise error
    return refused


def refusal(error: TreadleError) -> dict[str, Any]:
    """Return the error of a report that was refused."""
    return {"status": error.type.status, "type": error.type.uri, "detail": error.detail}


def report_answers(given: Sequence[Any], refused: Mapping[int, TreadleError]) -> list[dict[str, Any]]:
    """Return the answers to the reports as `ReportAnswer`, each with the run that it names, if that is valid."""
    reports = (report if isinstance(report, dict) else {} for report in given)
    names = ((_task_id(report.get("task_id")), _run_id(report.get("run_id"))) for report in reports)
    return [report_answer(*name, refused.get(i)) for i, name in enumerate(names)]


def _task_id(value: object) -> str | None:
    return value.lower() if isinstance(value, str) and is_uuid(value.lower()) else None


def _run_id(value: object) -> int | None:
    return value if isinstance(value, int) and LEAST_INTEGER <= value <= MOST_INTEGER else None


def report_answer(task_id: str | None, run_id: int | None, error: TreadleError | None) -> dict[str, Any]:
    """Return the answer to one report as `ReportAnswer`: accepted, or refused with the `error`."""
    taken: dict[str, Any] = {"status": 200, "type": None, "detail": None}
    return {"task_id": task_id, "run_id": run_id, **(taken if error is None else refusal(error))}
