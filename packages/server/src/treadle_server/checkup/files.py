"""Whether the server's files are its user's alone, as `treadle_server.private` makes them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from treadle.wire.amounts import first_of
from treadle.wire.findings import Finding, Seen
from treadle_server.errors import ValidationFailed
from treadle_server.private import DIRECTORY, FILE, OTHERS
from treadle_server.settings import Settings
from treadle_server.store.sqlite.places import file_of
from treadle_server.store.urls import parse_url

WRITABLE = stat.S_IWGRP | stat.S_IWOTH
"""Permissions by which the server's user may have what is root's, as a volume that a cluster lends."""

MOST = 3
"""The most files that are listed by name."""


def look(settings: Settings) -> Seen:
    """Look at everything in the data directory, and at a database's file that lies elsewhere."""
    directory = settings.data_dir
    if not directory.is_dir():
        return [
            Finding("files", "ok", f"the data directory {directory} does not exist yet: no server has started here")
        ]
    owner = _owner(directory)
    looked = [*_under(directory), *_of_database(settings)]
    wrong = [(path, what) for path in looked if (what := _wrong_with(path, owner))]
    if not wrong:
        return [
            Finding("files", "ok", f"only its owner can access {directory} and the {len(looked) - 1} entries in it")
        ]
    told = first_of([f"{path} {what}" for path, what in wrong], MOST)
    advice = " and ".join(sorted({_advice(what, path) for path, what in wrong[:MOST]}))
    return [Finding("files", "warn", f"{told}: they contain tasks, tokens and keys", advice)]


def _under(directory: Path) -> Iterator[Path]:
    yield directory
    for place, folders, names in os.walk(directory):
        for name in (*folders, *names):
            path = Path(place, name)
            if not path.is_symlink():
                yield path


def _of_database(settings: Settings) -> list[Path]:
    try:
        url = parse_url(settings.database_url)
    except ValidationFailed:
        return []  # the look at the database says so
    if url.get_backend_name() != "sqlite":
        return []
    path = file_of(url).absolute()
    if path.is_relative_to(settings.data_dir.absolute()):
        return []
    return sorted(path.parent.glob(f"{path.name}*"))


def _owner(directory: Path) -> int | None:
    """Return whose the files should be: this user's, or where root looks, whose the directory is; None on Windows."""
    return os.geteuid() or directory.stat().st_uid if hasattr(os, "geteuid") else None


def _wrong_with(path: Path, owner: int | None) -> str:
    try:
        found = path.stat()
    except FileNotFoundError:  # it went while it was looked for
        return ""
    mode = stat.S_IMODE(found.st_mode)
    if owner is not None and found.st_uid != owner and (found.st_uid != 0 or not mode & WRITABLE):
        return f"belongs to user {found.st_uid}"
    if mode & OTHERS:
        return f"is accessible to others ({mode:04o})"
    wanted = DIRECTORY if stat.S_ISDIR(found.st_mode) else FILE
    return "" if mode & wanted == wanted else f"is not accessible to its owner ({mode:04o})"


def _advice(what: str, path: Path) -> str:
    if what.startswith("belongs"):
        return "chown it to the server's user"
    wanted = DIRECTORY if path.is_dir() else FILE
    return f"chmod {wanted:o} {'each directory' if wanted == DIRECTORY else 'each file'}"
