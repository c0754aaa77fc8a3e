"""Standard input, output and error: of a process that may have been started without them, and what is cut off them."""

import errno
import io
import os
import sys
from typing import Any, TextIO


def open_what_is_closed() -> None:
    """Open what is closed of them, to lead nowhere: what is opened first would be in their place.

    Lines of a log would be written into a database or a socket, and uvloop ends the process (`uv__close: Assertion`)
    when it closes a file of its own that has one of their numbers.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # The lowest number that is free: this one.
            os.open(os.devnull, os.O_RDWR)


def write_all_of_it() -> None:
    """Have all written that is printed, also with `python -u` or PYTHONUNBUFFERED, as in our image.

    A signal, or a disk that is full, cuts a write short, and Python's text that is not buffered drops the rest in
    silence: where a line of `treadle watch --json` ended at Ctrl-C the next one began in it.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, io.FileIO):
            whole = io.TextIOWrapper(
                _WholeWrites(stream.fileno(), "w", closefd=False),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            for standard in (name, f"__{name}__"):
                setattr(sys, standard, whole)


def close_what_is_not_read() -> None:
    """Have what is still buffered for a reader that is gone, or a full disk, written nowhere, and what comes after it.

    At its end Python would complain of it.
    """
    for stream in (sys.stdout, sys.stderr):
        close_unless_written(stream)


def close_unless_written(stream: TextIO | None) -> None:
    """Have a stream lead nowhere from now on when what is buffered of it can't be written."""
    if stream is None or stream.closed:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _WholeWrites(io.FileIO):
    """A file that takes all of what it is given, or raises `OSError`."""

    def write(self, data: Any, /) -> int:
        """Write all of it, however many times the system must be asked."""
        rest = memoryview(data)
        while rest:
            taken = super().write(rest)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            rest = rest[taken:]
        return len(data)
