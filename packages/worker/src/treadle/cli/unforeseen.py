"""What reaches the terminal past the commands' own printing: the traceback of a defect, and warnings without a log.

Both carry what users sent. What cleans them is loaded when there is something to clean. And behind a command that has
ended: what keeps its process alive.
"""

import errno
import logging
import sys
import threading
import time
import traceback
from types import TracebackType

SOON_GONE = 1.0
"""Seconds after which a thread that is still there is worth a word; an executor's ends by itself when it is idle."""

_NO_DESCRIPTOR = {errno.EMFILE, errno.ENFILE}
"""None is left to this process, or to the whole system."""


def clean_what_nobody_caught() -> None:
    """Have both cleaned from now on, in this process."""
    sys.excepthook = show_traceback
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_Later("%(message)s"))


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an exception that ends the process, as Python does; that too few files may be open is no defect."""
    from treadle.cli import notices
    from treadle.cli.show import say

    if isinstance(error, OSError) and error.errno in _NO_DESCRIPTOR:
        sentence = f"{error.strerror}: the system allows fewer than this command needs; raise `ulimit -n`"
        if not notices.in_log(logging.CRITICAL, sentence):
            say(f"Error: {sentence}", err=True)
    elif not notices.in_log(logging.CRITICAL, "the command failed", (kind, error, trace)):
        say("".join(traceback.format_exception(kind, error, trace)).rstrip(), err=True)


def tell_what_is_waited_for() -> None:
    """Have the threads named that the process waits for, should it not be gone soon: tasks may have left some."""
    if _left():  # what tells it loads what `--help` does without
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
            f"The command has ended, and its process waits for {', '.join(left)}: a thread that is to end with the"
            " process is begun with daemon=True, any other one is to be told to end"
        )
        if not notices.in_log(logging.WARNING, sentence):
            say(sentence, err=True)


class _Later(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        from treadle.wire.shown import clean_lines

        return clean_lines(super().format(record))
