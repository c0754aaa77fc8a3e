"""SQLite has one server: a second one on the same file would not hear what the first one does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL

from treadle_server.errors import ValidationFailed
from treadle_server.private import FILE
from treadle_server.store.sqlite.places import file_of


class DatabaseInUse(ValidationFailed):
    """Another process holds the lock."""


@contextmanager
def hold_lock(url: URL) -> Iterator[None]:
    """Keep other servers from an SQLite file during the block; the system lets go of it when the process ends.

    Raises `DatabaseInUse` when there is another one, and `ValidationFailed` when the file can't be made or locked, or
    has several names.
    PostgreSQL may have any number of servers.
    """
    if url.get_backend_name() != "sqlite":
        yield
        return
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    file = file_of(url)
    path = Path(f"{file}-server")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE)
    except OSError as error:
        raise ValidationFailed(
            f"the lock file {path} can't be created or opened ({error.strerror or error}): check the disk, and the"
            " permissions there"
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DatabaseInUse(
                f"another server is using {url.database}: stop it, or let several servers share a PostgreSQL"
                " (TREADLE_DATABASE_URL)"
            ) from None
        except OSError as error:  # a file system over a network may keep no locks
            raise ValidationFailed(
                f"the lock file {path} can't be locked ({error.strerror or error}): put the database on a"
                " local disk, or use PostgreSQL (TREADLE_DATABASE_URL)"
            ) from None
        _check_names(file)
        yield
    finally:
        os.close(descriptor)


def _check_names(file: Path) -> None:
    """Raise `ValidationFailed` for a file with a second name (a hard link).

    By each name SQLite has another log beside it, and the servers another lock: two that have it open damage it, and
    one that comes by the other name does not find what was committed last.
    """
    if file.is_file() and (names := file.stat().st_nlink) > 1:
        raise ValidationFailed(
            f"{file} has {names} names (hard links), and a server would use a different log and lock with each: keep"
            f" the one next to the log (-wal), and remove the others (find / -xdev -samefile {file})"
        )
