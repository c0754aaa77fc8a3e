"""From a worker's report on the wire to the engine's; HTTP and the socket share it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from treadle.wire.ids import TaskId, WorkerId
from treadle.wire.runs import (
    Checkpoint,
    Completed,
    ExceptionReport,
    Failed,
    LogLine,
    Logs,
    Paused,
    Progress,
    Report,
)
from treadle.wire.tasks import TaskPatch
from treadle_server.api import body
from treadle_server.api.context import Api
from treadle_server.engine.commands import ReportRun, RunReport
from treadle_server.engine.principal import Principal
from treadle_server.errors import TreadleError, ValidationFailed

Body = Completed | Failed | ExceptionReport | Paused | Checkpoint | Progress | Logs | None


def _lines(lines: list[LogLine]) -> list[LogLine]:
    return [line.model_copy(update={"at": body.instant(line.at, "at")}) for line in lines]


def _progress(share: float | None, message: str | None) -> str:
    return body.text_of({"share": share, "message": message})


def from_body(kind: str, given: Body) -> RunReport:
    """Return the report that a route's body makes. Raises `ValidationFailed` for a time that can't be kept."""
    match given:
        case None:
            return RunReport(kind=kind)
        case Checkpoint():
            return RunReport(kind=kind, checkpoint=body.text_of(given.checkpoint))
        case Progress():
            return RunReport(kind=kind, progress=_progress(given.share, given.message))
        case Logs():
            return RunReport(kind=kind, lines=_lines(given.lines))
        case Completed():
            return RunReport(kind=kind, result=body.text_or_none(given.result), usage=given.usage)
        case Paused():
            checkpoint = body.text_or_none(given.checkpoint)
            return RunReport(kind=kind, checkpoint=checkpoint, usage=given.usage, detail=given.detail)
        case Failed():
            return RunReport(
                kind=kind,
                error=given.error,
                traceback=given.traceback,
                reason=given.reason,
                usage=given.usage,
                retry_after=given.retry_after,
            )
        case ExceptionReport():
            return RunReport(
                kind=kind, error=given.error, traceback=given.traceback, reason=given.reason, usage=given.usage
            )


def from_report(report: Report) -> RunReport:
    """Return one of many reports. Raises `ValidationFailed` when a field that its kind needs is missing."""
    if report.kind == "logs" and not report.lines:
        raise ValidationFailed("logs: needs lines")
    if report.kind == "checkpoint" and "checkpoint" not in report.model_fields_set:
        raise ValidationFailed("checkpoint: needs a checkpoint")
    keeps_checkpoint = report.kind in {"checkpoint", "paused"}
    null_is_kept = report.kind == "checkpoint"
    checkpoint = body.text_of(report.checkpoint) if null_is_kept else body.text_or_none(report.checkpoint)
    return RunReport(
        kind=report.kind,
        result=body.text_or_none(report.result) if report.kind == "completed" else None,
        error=report.error if report.kind != "failed" else report.error or "",
        traceback=report.traceback,
        reason=report.reason,
        usage=report.usage,
        retry_after=report.retry_after,
        checkpoint=checkpoint if keeps_checkpoint else None,
        progress=_progress(report.share, report.message) if report.kind == "progress" else None,
        detail=report.detail,
        lines=_lines(report.lines) if report.kind == "logs" and report.lines else None,
    )


_KINDS = {"running": "started", "completed": "completed", "failed": "failed", "paused": "paused"}


def from_patch(patch: TaskPatch) -> RunReport:
    """Return the report that a status update of an older client makes."""
    assert patch.status is not None
    kind = _KINDS.get(patch.status.value, "started")
    if kind == "failed" and patch.reason is not None and patch.reason.value not in {"error", "timeout"}:
        kind = "exception"
    return RunReport(
        kind=kind,
        result=body.text_or_none(patch.result) if kind == "completed" else None,
        error=patch.error,
        traceback=patch.traceback,
        reason=patch.reason,
        usage=patch.usage,
        checkpoint=body.text_or_none(patch.checkpoint),
    )


async def report_many(
    api: Api, principal: Principal, worker_id: WorkerId, reports: Sequence[Report]
) -> list[dict[str, Any]]:
    """Take the reports in their order, each with its own answer as `ReportAnswer`. Raises `StoreUnavailable`."""

    async def one(report: Report) -> None:
        command = ReportRun(
            principal=principal,
            worker_id=worker_id,
            task_id=TaskId(report.task_id),
            run_id=body.run_number(report.run_id),
            report=from_report(report),
        )
        await api.engine.run(command)

    # Tasks start in the order in which they are made, so that the writer sees the reports in theirs.
    outcomes = await asyncio.gather(*(one(report) for report in reports), return_exceptions=True)
    return [
        report_answer(report.task_id, report.run_id, outcome) for report, outcome in zip(reports, outcomes, strict=True)
    ]


def report_answer(task_id: str, run_id: int, outcome: BaseException | None) -> dict[str, Any]:
    """Return how one report was taken as `ReportAnswer`; raises what is no answer to a single report."""
    if outcome is None:
        return {"task_id": task_id, "run_id": run_id, "status": 200, "type": None, "detail": None}
    if not isinstance(outcome, TreadleError) or outcome.type.status >= 500 or outcome.type.status == 429:
        raise outcome
    kind = outcome.type
    return {"task_id": task_id, "run_id": run_id, "status": kind.status, "type": kind.uri, "detail": outcome.detail}
