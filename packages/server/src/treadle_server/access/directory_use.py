"""Tells whether another server uses a data directory: each locks a file there, which the system releases at its end."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treadle_server.private import FILE


@contextmanager
def in_use(directory: Path) -> Iterator[None]:
    """Show others during the block that a server uses the directory; where nothing can be written, do nothing."""
    file = None
    with suppress(BlockingIOError):  # another server asks at this moment whether it is in use
        file = _locked(directory, is_shared=True)
    try:
        yield
    finally:
        if file is not None:
            os.close(file)


def is_in_use(directory: Path) -> bool:
    """Return whether a server uses the directory, as far as that can be told."""
    with suppress(BlockingIOError):
        if (file := _locked(directory, is_shared=False)) is not None:
            os.close(file)
        return False
    return True


def _locked(directory: Path, *, is_shared: bool) -> int | None:
    """Return the locked file; None where there can't be one. Raises `BlockingIOError` when another lock is held."""
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        return None
    try:
        file = os.open(directory / "servers", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
    except OSError:
        return None
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except OSError as error:
        os.close(file)
        if isinstance(error, BlockingIOError):
            raise
        return None
    return file
