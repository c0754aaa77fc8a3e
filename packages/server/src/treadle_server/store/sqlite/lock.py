"""The lock that allows one server for an SQLite file: a second one would not learn of the first one's changes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL

from treadle_server.errors import ValidationFailed
from treadle_server.private import FILE, make_with_parents
from treadle_server.store.sqlite.places import file_of


class DatabaseInUse(ValidationFailed):
    """Another process holds the database's lock."""


@contextmanager
def hold_lock(url: URL) -> Iterator[None]:
    """Lock an SQLite file against other servers during the block; the system releases it when the process ends.

    Raises `DatabaseInUse` when another server has it, and `ValidationFailed` when the lock file can't be created or
    locked, or the database has several names. For PostgreSQL, which may have any number of servers, it does nothing.
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
        make_with_parents(path.parent)
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
        except OSError as error:  # a network file system may not support locks
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

    With each name SQLite would use a different log, and servers a different lock: two that open it at once damage it,
    and a server that opens it by the other name misses the latest commits.
    """
    if file.is_file() and (names := file.stat().st_nlink) > 1:
        raise ValidationFailed(
            f"{file} has {names} names (hard links), and a server would use a different log and lock with each: keep"
            f" the one next to the log (-wal), and remove the others (find / -xdev -samefile {file})"
        )
