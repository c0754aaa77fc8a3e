"""Reports how long tasks waited as OpenTelemetry spans, if the process has loaded OpenTelemetry."""

import sys
from collections.abc import Mapping
from datetime import datetime

from treadle.wire.status import Status
from treadle_server import __version__
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch

SPANS: Mapping[str, str] = {"wait": "The time from a task being due to the start of its run"}
"""The prefixes of the server's spans, which the job's name follows."""


def tell_waits(batch: Batch) -> None:
    """Report how long each traced task that this server started had waited; a listener of the hub."""
    if "opentelemetry.trace" not in sys.modules or batch.is_foreign:
        return
    told: set[int] = set()
    for task, was in batch.tasks:
        # One object may report a start and a completion of the same commit.
        starts = was is Status.CLAIMED and task.status is Status.RUNNING
        ends = was is Status.RUNNING and task.status is Status.COMPLETED and task.started_at == batch.at
        if task.trace is not None and (starts or ends) and task.seq not in told:
            told.add(task.seq)
            _tell(task)


def _tell(task: Task) -> None:
    from opentelemetry.trace import get_tracer
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    facts: dict[str, str | int] = {
        "messaging.system": "treadle",
        "messaging.destination.name": task.job_name,
        "messaging.message.id": task.id,
        "treadle.run": task.run_id,
    }
    span = get_tracer("treadle-server", __version__).start_span(
        f"wait {task.job_name}",
        context=TraceContextTextMapPropagator().extract(task.trace_context),
        attributes=facts,
        start_time=_nanoseconds(task.due_at),
    )
    span.end(_nanoseconds(task.started_at or task.due_at))


def _nanoseconds(at: datetime) -> int:
    return round(at.timestamp() * 1e6) * 1000
