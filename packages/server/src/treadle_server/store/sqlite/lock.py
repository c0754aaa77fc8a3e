"""SQLite has one server: a second one on the same file would not hear what the first one does."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import URL

from treadle_server.errors import ValidationFailed


@contextmanager
def hold_lock(url: URL) -> Iterator[None]:
    """Keep other servers from an SQLite file during the block; the system lets go of it when the process ends.

    Raises `ValidationFailed` when there is another one. PostgreSQL may have any number of servers.
    """
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        yield
        return
    try:
        import fcntl
    except ImportError:  # Windows has no such locks
        yield
        return
    path = Path(f"{url.database}-server")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValidationFailed(
                f"another server uses {url.database} already: stop it, or give several servers one PostgreSQL"
                " (TREADLE_DATABASE_URL)"
            ) from None
        yield
    finally:
        os.close(descriptor)
