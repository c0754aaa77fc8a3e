"""What reaches the terminal outside the commands' own output: tracebacks of bugs, and warnings without a log.

Both contain text from users; what makes it safe is imported on use. Also names the threads that keep the process of a
finished command alive.
"""

import errno
import logging
import sys
import threading
import time
import traceback
from types import TracebackType

SOON_GONE = 1.0
"""Seconds after which a remaining thread is reported; an executor's ends by itself when it is idle."""

_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
"""Errors for which this process, or the whole system, has no file descriptor left."""


def clean_uncaught_output() -> None:
    """Make both safe from now on, in this process."""
    sys.excepthook = show_traceback
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Later("%(message)s"))


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that ends the process, as Python does; report a lack of file descriptors in one sentence."""
    from treadle.cli import notices
    from treadle.cli.show import say

    if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
        sentence = f"{error.strerror}: the system allows fewer than this command needs; raise `ulimit -n`"
        if not notices.in_log(logging.CRITICAL, sentence):
            say(f"Error: {sentence}", err=True)
    elif not notices.in_log(logging.CRITICAL, "the command failed", (kind, error, trace)):
        say("".join(traceback.format_exception(kind, error, trace)).rstrip(), err=True)


def report_remaining_threads() -> None:
    """Report the threads that the process waits for, if it does not end soon: tasks may have left some behind."""
    if _left():  # the reporting imports what `--help` does without
        threading.Thread(target=_tell_threads, daemon=True).start()


def _left() -> list[str]:
    main = threading.main_thread()
    return [thread.name for thread in threading.enumerate() if not thread.daemon and thread is not main]


def _tell_threads() -> None:
    from treadle.cli import notices
    from treadle.cli.show import say

    time.sleep(SOON_GONE)
    if left := _left():
        sentence = (
            f"The command has ended, but its process waits for {', '.join(left)}: start a thread with daemon=True"
            " if it may end with the process, or tell it to end"
        )
        if not notices.in_log(logging.WARNING, sentence):
            say(sentence, err=True)


class _Later(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from treadle.wire.shown import clean_lines

        return clean_lines(super().format(record))
