"""Tells which processes are alive: each process with executors of its own locks a file in the data directory.

The system releases the lock when the process ends, however it ends. So a starting server knows at once which workers
of executors have died with their process; of those on other machines it learns from their missing heartbeats.
"""

import os
from pathlib import Path

from treadle.wire.ids import WorkerId, is_uuid


class ProcessLocks:
    """The files of one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mine: tuple[Path, int] | None = None

    def take(self, worker_id: WorkerId) -> None:
        """Say that this process has the worker's executors, from now until `leave` or its end."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f".{worker_id}"
        file = os.open(draft, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(file)
        # Others see the file only under its name, and so never before it is locked.
        path = draft.rename(self._directory / worker_id)
        self._mine = (path, file)

    def gone(self) -> list[WorkerId]:
        """Return the workers whose process has ended without leaving."""
        if not self._directory.is_dir():
            return []
        others = [path for path in sorted(self._directory.iterdir()) if is_uuid(path.name)]
        mine = None if self._mine is None else self._mine[0]
        return [WorkerId(path.name) for path in others if path != mine and _is_free(path)]

    def clear(self, worker_ids: list[WorkerId]) -> None:
        """Forget workers whose runs are taken over."""
        for worker_id in worker_ids:
            (self._directory / worker_id).unlink(missing_ok=True)

    def leave(self, *, is_done: bool) -> None:
        """End what `take` began; unless `is_done`, it is left to the next start to find."""
        if self._mine is None:
            return
        path, file = self._mine
        self._mine = None
        if is_done:
            path.unlink(missing_ok=True)
        os.close(file)


def _lock(file: int) -> bool:
    """Lock the open file; return whether nobody else has it."""
    try:
        import fcntl
    except ImportError:
        # Windows: there processes that died are found by their missing heartbeats alone.
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_free(path: Path) -> bool:
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return _lock(file)
    finally:
        os.close(file)
