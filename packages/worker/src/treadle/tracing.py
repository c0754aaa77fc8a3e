"""Traces by OpenTelemetry: a trace's context travels with a task, and what happens to the task is recorded in spans.

OpenTelemetry is never imported for this alone: in a program that has not imported it, nothing is done.
"""

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

from treadle.version import __version__

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

log = logging.getLogger(__name__)

SPANS: Mapping[str, str] = {
    "submit": "A client submits a task, or several at once",
    "run": "A run of a task in a worker, middleware included",
    "result": "A client waits for a task's result",
}
"""The first words of this package's span names, each followed by the job's name."""

CONTEXT = ("traceparent", "tracestate", "baggage")
"""The fields of a submit and of a claim that carry the context, named and written as in W3C's standards."""


def is_on() -> bool:
    """Return whether this program has imported OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def submitting(items: list[dict[str, Any]]) -> AbstractContextManager[object]:
    """Record a submit of these tasks in a span named after the first one's job, and give each of them its context."""
    return _submitting(items) if items and is_on() else nullcontext()


@contextmanager
def _submitting(items: list[dict[str, Any]]) -> Iterator[None]:
    job = items[0]["job"]
    from opentelemetry.trace import SpanKind

    of_them = {"messaging.message.id": items[0]["id"]} if len(items) == 1 else {}
    facts = {**_facts("send", job), **of_them, "messaging.batch.message_count": len(items)}
    with _tracer().start_as_current_span(f"submit {job}", kind=SpanKind.PRODUCER, attributes=facts):
        context = carried()
        for item in items:
            item.update(context)
        yield


def awaiting(item: Mapping[str, Any] | None) -> AbstractContextManager[object]:
    """Record the wait for the result of a task, submitted as `item`, in a span of its trace."""
    if item is None or "traceparent" not in item or not is_on():
        return nullcontext()
    from opentelemetry.trace import SpanKind

    facts = {**_facts("settle", item["job"]), "messaging.message.id": item["id"]}
    return _tracer().start_as_current_span(
        f"result {item['job']}", context=_context_of(item), kind=SpanKind.CLIENT, attributes=facts
    )


def running(claim: Mapping[str, Any]) -> "AbstractContextManager[Span | None]":
    """Record a run in a span of its task's trace, within the carried context; yields None without tracing."""
    return _running(claim) if is_on() else nullcontext()


@contextmanager
def _running(claim: Mapping[str, Any]) -> "Iterator[Span]":
    from opentelemetry.trace import SpanKind

    job = claim["job_name"]
    facts = {**_facts("process", job), "messaging.message.id": claim["id"], "treadle.run": claim["run_id"]}
    with (
        within(claim),
        _tracer().start_as_current_span(
            f"run {job}",
            kind=SpanKind.CONSUMER,
            attributes=facts,
            record_exception=False,
            set_status_on_exception=False,
        ) as span,
    ):
        yield span


def tell_end(span: "Span", ending: Mapping[str, Any], error: BaseException | None, *, encrypted: bool = False) -> None:
    """Record in a run's span how it ended: its outcome, and for a failure the error with its traceback.

    For an encrypted task only the error's class, because spans go to places that need not have the keys.
    """
    from opentelemetry.trace import Status, StatusCode

    span.set_attribute("treadle.outcome", ending["kind"])
    if ending["kind"] not in {"failed", "exception"}:
        return
    if encrypted:
        kind = type(error).__qualname__ if error is not None else str(ending.get("reason") or "Exception")
        span.set_status(Status(StatusCode.ERROR, kind))
        span.add_event("exception", {"exception.type": kind})
        return
    span.set_status(Status(StatusCode.ERROR, str(ending.get("error") or ending.get("reason"))))
    if (trace := ending.get("traceback")) is not None:
        kind = type(error).__qualname__ if error is not None else "Exception"
        facts = {"exception.type": kind, "exception.message": str(ending.get("error")), "exception.stacktrace": trace}
        span.add_event("exception", facts)


def carried() -> dict[str, str]:
    """Return the present context, if any, as it travels with a task or to a child process."""
    carrier: dict[str, str] = {}
    if is_on():
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
        # If `OTEL_PROPAGATORS` leaves baggage out, it must not leave the process.
        if carrier and (told := _propagation()) is not None and "baggage" in told.get_global_textmap().fields:
            W3CBaggagePropagator().inject(carrier)
    return carrier


@cache
def _propagation() -> ModuleType | None:
    """Return OpenTelemetry's module that decides what may leave the process; None if it can't be imported.

    It can't if `OTEL_PROPAGATORS` names something that is not installed, which must not make submits fail.
    """
    try:
        from opentelemetry import propagate
    except Exception as error:  # noqa: BLE001 - it imports code of other packages
        log.warning("OTEL_PROPAGATORS can't be used (%s): tasks carry their trace, but no baggage", error)
        return None
    return propagate


@contextmanager
def within(carrier: Mapping[str, Any]) -> Iterator[None]:
    """Within the block, make spans part of a context that came from another process."""
    if not carrier:
        yield
        return
    from opentelemetry import context

    token = context.attach(_context_of(carrier))
    try:
        yield
    finally:
        context.detach(token)


def _facts(operation: str, job: str) -> dict[str, str | int]:
    return {
        "messaging.system": "treadle",
        "messaging.operation.type": operation,
        "messaging.destination.name": job,
    }


def _tracer() -> "Tracer":
    from opentelemetry.trace import get_tracer

    return get_tracer("treadle", __version__)


def _context_of(carrier: Mapping[str, Any]) -> Any:
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    told = {name: carrier[name] for name in CONTEXT if carrier.get(name)}
    return W3CBaggagePropagator().extract(told, TraceContextTextMapPropagator().extract(told))
