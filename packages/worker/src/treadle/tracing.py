"""Traces by OpenTelemetry: the context of a trace goes with a task, and what happens to it is told in spans.

Nothing is loaded for it. A program that traces has loaded OpenTelemetry before; in any other one nothing is done.
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
    "submit": "A task is put in, or several at once, by a client",
    "run": "A run of a task in a worker, middleware included",
    "result": "A client waits for a task's result",
}
"""What the spans of this package begin with, their job's name behind it."""

CONTEXT = ("traceparent", "tracestate", "baggage")
"""The members of a submit and of a claim that carry the context, as W3C names and writes them."""


def is_on() -> bool:
    """Return whether this program has loaded OpenTelemetry."""
    return "opentelemetry.trace" in sys.modules


def submitting(items: list[dict[str, Any]]) -> AbstractContextManager[object]:
    """Tell a submit of these tasks in a span, whose context each of them is given; the first one's job names it."""
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
    """Tell the wait for the result of a task that was submitted as `item` in a span of its trace."""
    if item is None or "traceparent" not in item or not is_on():
        return nullcontext()
    from opentelemetry.trace import SpanKind

    facts = {**_facts("settle", item["job"]), "messaging.message.id": item["id"]}
    return _tracer().start_as_current_span(
        f"result {item['job']}", context=_context_of(item), kind=SpanKind.CLIENT, attributes=facts
    )


def running(claim: Mapping[str, Any]) -> "AbstractContextManager[Span | None]":
    """Tell a run in a span of its task's trace, within what was carried; None where nobody traces."""
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
    """Note in a run's span how it ended: its outcome, and of a failure the error with its traceback.

    Of an encrypted task only the error's class: spans go where the keys need not be.
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
    """Return the present context, if there is one, as it goes with a task or to a child process."""
    carrier: dict[str, str] = {}
    if is_on():
        from opentelemetry.baggage.propagation import W3CBaggagePropagator
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        TraceContextTextMapPropagator().inject(carrier)
        # Where `OTEL_PROPAGATORS` leaves baggage out, it is not to leave the process.
        if carrier and (told := _propagation()) is not None and "baggage" in told.get_global_textmap().fields:
            W3CBaggagePropagator().inject(carrier)
    return carrier


@cache
def _propagation() -> ModuleType | None:
    """Return OpenTelemetry's module that knows what may leave the process; None where it can't be loaded.

    It is not where `OTEL_PROPAGATORS` names what is not installed: nothing that is submitted is to fail for it.
    """
    try:
        from opentelemetry import propagate
    except Exception as error:  # noqa: BLE001 - what it loads is anybody's
        log.warning("OTEL_PROPAGATORS can't be used (%s): tasks go with their trace, and without baggage", error)
        return None
    return propagate


@contextmanager
def within(carrier: Mapping[str, Any]) -> Iterator[None]:
    """Let what is told within the block belong to a context that came from a process that traces."""
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
