"""Standard input, output and error: safe when closed at the start, and written in full."""

import errno
import io
import os
import sys
from typing import Any, TextIO


def open_closed_streams() -> None:
    """Open those of them that are closed, to /dev/null, because the next opened file would take their place.

    Log lines would then be written into a database or a socket, and uvloop ends the process (`uv__close: Assertion`)
    when it closes a file of its own that has one of their numbers.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # This takes the lowest free number, which is this one.
            os.open(os.devnull, os.O_RDWR)


def write_in_full() -> None:
    """Have all printed text written in full, even with `python -u` or PYTHONUNBUFFERED, as in our image.

    A signal, or a full disk, cuts a write short, and Python's unbuffered text streams silently drop the rest: after a
    Ctrl-C in a line of `treadle watch --json`, the next line began within it.
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


def drop_unwritable_output() -> None:
    """If buffered output can't be written, since its reader is gone or the disk is full, drop it and all that follows.

    Python would otherwise complain about it on exit.
    """
    for stream in (sys.stdout, sys.stderr):
        close_unless_written(stream)


def close_unless_written(stream: TextIO | None) -> None:
    """Redirect a stream to /dev/null from now on if its buffered output can't be written."""
    if stream is None or stream.closed:
        return
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


class _WholeWrites(io.FileIO):
    """A file whose `write` writes all of the data, or raises `OSError`."""

    def write(self, data: Any, /) -> int:
        """Write all of it, however many system calls that takes."""
        rest = memoryview(data)
        while rest:
            taken = super().write(rest)
            if taken is None:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            rest = rest[taken:]
        return len(data)
