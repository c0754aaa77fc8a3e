"""Detect that SQLite's files were removed or replaced while they are open: what is written to them then is lost."""

import os
from pathlib import Path

from sqlalchemy.engine import URL

from treadle_server.errors import ValidationFailed

SIDES = ("-wal", "-shm", "-journal")
"""Suffixes of the files that SQLite keeps next to a database."""


def file_of(url: URL) -> Path:
    """Return the path of SQLite's database, for a URL from `parse_url`.

    A symbolic link is resolved: SQLite keeps the log next to its target, and a server that uses another name must find
    the same lock there. A broken link is returned as it is, to be reported later.
    """
    return _followed(url.database or "")


def _followed(database: str) -> Path:
    # Unlike Path's methods, these don't raise where permission is missing, which is reported on opening.
    is_link = os.path.islink(database) and os.path.exists(database)  # noqa: PTH110, PTH114
    return Path(os.path.realpath(database) if is_link else database)


def check_log(file: Path) -> None:
    """Raise `ValidationFailed` for a log (-wal) whose database is missing or empty.

    SQLite deletes such a log as soon as anyone opens the database, even to read, and it may hold the only copy of all
    tasks.
    """
    if (told := lone_log(file)) is not None:
        raise ValidationFailed(f"{told}; nothing was changed, {LONE_LOG}")


def lone_log(file: Path) -> str | None:
    """Return what is wrong if the database has a log (-wal) but is itself missing or empty; otherwise None."""
    size, log = _size_of(file), Path(f"{file}-wal")
    return None if size or not _size_of(log) else f"{file} is {'missing' if size is None else 'empty'}, but not {log}"


LONE_LOG = "put the file back, or move the log away and restore the backup"
"""What to do about a log without its database; a backup would be damaged by the log."""


def _size_of(file: Path) -> int | None:
    # Unlike `Path.exists`, this doesn't raise where permission is missing, which is reported on opening.
    return os.path.getsize(file) if os.path.exists(file) else None  # noqa: PTH110, PTH202


class FilesMoved(OSError):
    """A file of the database was removed or replaced."""


class FilesInPlace:
    """The database's file and its log, identified by their inode numbers.

    A process can go on writing to a removed file without any error: the server confirmed tasks as stored, and when it
    ended they were all gone. A check takes microseconds, a small part of the quickest commit.
    """

    def __init__(self, database: str | None) -> None:
        """`database` is the path in SQLAlchemy's URL; for a database that is not a file nothing is checked."""
        is_file = database and database != ":memory:" and not database.startswith("file:")
        paths = [database, f"{_followed(database)}-wal"] if database and is_file else []
        self._numbers: dict[str, int | None] = dict.fromkeys(paths)

    def check(self) -> None:
        """Raise `FilesMoved` unless each file is still the original; the log appears with the first transaction."""
        for path, first in self._numbers.items():
            number = _number_of(path)
            if first is None:
                self._numbers[path] = number
            elif number != first:
                raise FilesMoved(
                    f"{path} was removed or replaced while this server had it open: put it back, or stop the server,"
                    " which accepts nothing more until then"
                )


def _number_of(path: str) -> int | None:
    try:
        return os.stat(path).st_ino  # noqa: PTH116 - Path.stat takes half as long again, and this runs with each commit
    except FileNotFoundError:
        return None
