"""Log lines of servers and workers, as text or as JSON, with their context (task, run, worker …).

Modules log with `logging`, as libraries do. Bound names are added to each line that is logged in the same context.
"""

import json
import logging
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Literal

from treadle.wire.shown import CleanFormatter, clean_json

Style = Literal["console", "json"]
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_bound: ContextVar[Mapping[str, Any]] = ContextVar("bound", default=MappingProxyType({}))


def bind(**names: Any) -> None:
    """Add names, such as a task and its run, to every line logged from now on in this context.

    A function among the values is called when a line is written.
    """
    _bound.set({**_bound.get(), **names})


@contextmanager
def bound(**names: Any) -> Iterator[None]:
    """Bind names, as `bind` does, during the block."""
    token = _bound.set({**_bound.get(), **names})
    try:
        yield
    finally:
        _bound.reset(token)


def bound_now() -> dict[str, Any]:
    """Return the names bound in this context, with their values."""
    return {name: value() if callable(value) else value for name, value in _bound.get().items()}


def note(record: logging.LogRecord) -> Literal[True]:
    """Store the bound names on a record where it is logged; a filter for handlers."""
    record.bound = bound_now()
    return True


class Console(CleanFormatter):
    """Formats lines as text, with the bound names after the message."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the first line."""
        line = super().formatMessage(record)
        bound = " ".join(f"{name}={value}" for name, value in _bound_to(record).items())
        return f"{line} [{bound}]" if bound else line


def formatter(style: Style) -> logging.Formatter:
    """Return the formatter for a style. Raises `ModuleNotFoundError` for JSON if structlog is not installed."""
    return Console(FORMAT) if style == "console" else json_formatter()


def json_formatter() -> logging.Formatter:
    """Return a formatter that writes JSON objects: the message as `event`, the bound names and the traceback."""
    # The import takes 0.2 s, which text logs should not cost.
    import structlog

    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[_add_facts],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(serializer=_dumped),
        ],
    )


def _add_facts(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    record: logging.LogRecord = event["_record"]
    at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
    facts = {"timestamp": at, "level": record.levelname.lower(), "logger": record.name}
    # A traceback that came as text, from a child process.
    trace = {"exception": record.exc_text} if record.exc_text and "exc_info" not in event else {}
    return {**facts, **event, **_bound_to(record), **trace}


def _bound_to(record: logging.LogRecord) -> Mapping[str, Any]:
    bound: Mapping[str, Any] = getattr(record, "bound", {})
    return bound


def _dumped(event: MutableMapping[str, Any], **_: object) -> str:
    return clean_json(json.dumps(event, default=str, ensure_ascii=False))
