"""The log of a worker's process, on standard error, as lines or JSON; logging that is already configured is kept."""

import logging
from typing import Any

from treadle.errors import TreadleError
from treadle.wire.log_lines import Style, formatter, note

CHATTY = ("httpx", "websockets")
"""Libraries that log each request or frame."""


class NoStructlog(TreadleError, ValueError):
    """JSON logs are asked for, and structlog, which writes them, is not installed."""


_begun: dict[str, Any] | None = None


def begin(style: Style = "console", level: int = logging.INFO) -> None:
    """Write the log of this process to standard error from now on, unless logging is already configured.

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
    logging.captureWarnings(True)  # so that Python's warnings are logged as lines too
    _begun = {"style": style, "level": level}


def begun() -> dict[str, Any] | None:
    """Return the arguments of `begin`, for a child process; None if logging was configured by somebody else."""
    return _begun
