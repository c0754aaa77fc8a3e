"""Tells in spans how long tasks waited, where the server's process has loaded OpenTelemetry; else nothing is done."""

import sys
from collections.abc import Mapping
from datetime import datetime

from treadle.wire.status import Status
from treadle_server import __version__
from treadle_server.domain.tasks import Task
from treadle_server.engine.hub import Batch

SPANS: Mapping[str, str] = {"wait": "A task was due, and no run of it had started"}
"""What the spans of the server begin with, their job's name behind it."""


def tell_waits(batch: Batch) -> None:
    """Tell of each traced task that this server started how long it waited; a listener of the hub."""
    if "opentelemetry.trace" not in sys.modules or batch.is_foreign:
        return
    told: set[int] = set()
    for task, was in batch.tasks:
        # One object may tell a start and a completion of the same commit.
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
