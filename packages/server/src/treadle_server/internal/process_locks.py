"""Tell which processes are alive: each process with its own executors locks a file in the data directory.

The system releases the lock when the process ends, however it ends. So a starting server knows at once which executors'
workers have died with their process; those on other machines show by their missing heartbeats.
"""

import os
from pathlib import Path

from treadle.wire.ids import WorkerId, is_uuid


class ProcessLocks:
    """The lock files of one data directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mine: tuple[Path, int] | None = None

    def take(self, worker_id: WorkerId) -> None:
        """Declare that this process has the worker's executors, from now until `leave` or its end."""
        self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._directory / f".{worker_id}"
        file = os.open(draft, os.O_CREAT | os.O_RDWR, 0o600)
        _lock(file)
        # Others see the file only under its final name, and so never before it is locked.
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
        """Remove the files of workers whose runs have been taken over."""
        for worker_id in worker_ids:
            (self._directory / worker_id).unlink(missing_ok=True)

    def leave(self, *, is_done: bool) -> None:
        """Undo `take`; unless `is_done`, the file is left for the next start to find."""
        if self._mine is None:
            return
        path, file = self._mine
        self._mine = None
        if is_done:
            path.unlink(missing_ok=True)
        os.close(file)


def _lock(file: int) -> bool:
    """Lock the open file; return whether that succeeded."""
    try:
        import fcntl
    except ImportError:
        # On Windows dead processes are found only by their missing heartbeats.
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
