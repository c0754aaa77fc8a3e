"""The log of a worker's process: on standard error, as lines or JSON; whoever has configured logging keeps that."""

import logging
from typing import Any

from treadle.errors import TreadleError
from treadle.wire.log_lines import Style, formatter, note

CHATTY = ("httpx", "websockets")
"""Libraries that tell of each request and frame."""


class NoStructlog(TreadleError, ValueError):
    """JSON is asked for, and what writes it is not installed."""


_begun: dict[str, Any] | None = None


def begin(style: Style = "console", level: int = logging.INFO) -> None:
    """Write the log of this process to its standard error, from now on, unless something writes it already.

    Raises `NoStructlog` for JSON where structlog is not installed.
    """
    global _begun  # noqa: PLW0603 - the log is the process's own
    root = logging.getLogger()
    if root.handlers:
        return
    handler = logging.StreamHandler()
    handler.addFilter(note)
    try:
        handler.setFormatter(formatter(style))
    except ModuleNotFoundError:
        raise NoStructlog("TREADLE_LOG_FORMAT is json, which needs structlog: pip install 'treadle[logging]'") from None
    root.addHandler(handler)
    root.setLevel(level)
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.WARNING)
    logging.captureWarnings(True)  # Python's own: a line each, too
    _begun = {"style": style, "level": level}


def begun() -> dict[str, Any] | None:
    """Return what `begin` was called with, for a child process; None where logging is somebody else's."""
    return _begun
