"""Whether SQLite's files still stand where they were opened: what is written into removed ones nobody finds again."""

import os
from pathlib import Path

from sqlalchemy.engine import URL

SIDES = ("-wal", "-shm", "-journal")
"""What SQLite has beside a file: the endings of their names."""


def file_of(url: URL) -> Path:
    """Return the path of SQLite's database, which every URL of it has that `parse_url` takes.

    Of a link it is that of the file to which it leads: SQLite has the log beside that, and who comes by another name is
    to find the same lock there. One that leads to nothing stays, for whoever says so.
    """
    return _followed(url.database or "")


def _followed(database: str) -> Path:
    # As a Path's own they raise where they may not look, of which whoever opens it tells.
    is_link = os.path.islink(database) and os.path.exists(database)  # noqa: PTH110, PTH114
    return Path(os.path.realpath(database) if is_link else database)


class FilesMoved(OSError):
    """A file of the database was removed, or another one was put in its place."""


class FilesInPlace:
    """The database's file and its log, by the numbers that the file system gave them.

    A process goes on writing into a file that was removed, without any error: the server took tasks and said that they
    were kept, and with its end all of them were gone. A look takes microseconds, a small part of the quickest commit.
    """

    def __init__(self, database: str | None) -> None:
        """`database` is the path that SQLAlchemy's URL has; what is no file has nothing to be looked at."""
        is_file = database and database != ":memory:" and not database.startswith("file:")
        paths = [database, f"{_followed(database)}-wal"] if database and is_file else []
        self._numbers: dict[str, int | None] = dict.fromkeys(paths)

    def check(self) -> None:
        """Raise `FilesMoved` unless each is the one that was there first; the log comes with the first transaction."""
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
        return os.stat(path).st_ino  # noqa: PTH116 - a Path takes half as long again, and this is asked with each commit
    except FileNotFoundError:
        return None
