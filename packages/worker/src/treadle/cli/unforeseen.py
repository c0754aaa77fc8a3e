"""What reaches the terminal past the commands' own printing: the traceback of a defect, and warnings without a log.

Both carry what users sent. What cleans them is loaded when there is something to clean.
"""

import logging
import sys
import traceback
from types import TracebackType


def clean_what_nobody_caught() -> None:
    """Have both cleaned from now on, in this process."""
    sys.excepthook = show_traceback
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Later("%(message)s"))


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that ends the process, as Python does."""
    from treadle.cli.show import say

    say("".join(traceback.format_exception(kind, error, trace)).rstrip(), err=True)


class _Later(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from treadle.wire.shown import clean_lines

        return clean_lines(super().format(record))
