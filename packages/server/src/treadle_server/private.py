"""Files and directories for this user only: they contain submitted tasks, and the keys that sign credentials.

Whoever can write to a directory can replace the files in it, so a directory of another user is refused. Those of root
are accepted, and for root only its own. Windows itself keeps a user's files from other users.
"""

import errno
import os
import stat
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from treadle_server.errors import ValidationFailed

DIRECTORY, FILE = 0o700, 0o600
OTHERS = 0o077
"""The permission bits of group and others."""

READ_ONLY = getattr(os, "ST_RDONLY", 1)
"""The flag of a disk that is mounted read-only."""


def make_directory(path: Path, *, name: str, setting: str) -> Path:
    """Create the directory and its missing parents for this user only, and return it.

    Errors call it `name`, and `setting` says how to choose another. Raises `ValidationFailed` if the directory can't
    be created or written, or belongs to another user.
    """
    try:
        make_with_parents(path)
        _check_owner(path, name, setting)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(0, why_not_writable(path))
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be used ({error.strerror or error}): make it writable, or choose another with"
            f" {setting}"
        ) from None
    return path


def make_file(path: Path, *, name: str, setting: str, sides: Iterable[str] = ()) -> None:
    """Create the file if it does not exist, and take other users' permissions from it if it does.

    The same permissions are taken from files beside it with one of the suffixes `sides`. Raises `ValidationFailed` if
    that is impossible, or the file is another user's or a broken link: its disk may not be mounted.
    """
    try:
        # An existing file is not opened: closing it would release the locks of this process's other connections.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises without permission
            raise ValidationFailed(
                f"{name} {path} is a link to {path.readlink()}, which can't be found: check that its disk is mounted,"
                f" remove the link, or choose another with {setting}"
            ) from None
        _check_owner(path, name, setting)
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be created ({error.strerror or error}): choose another with {setting}"
        ) from None
    close_to_others(path)
    for one in (path.with_name(path.name + side) for side in sides):
        if one.exists():
            close_to_others(one)


def check_writable(path: Path, *, name: str, setting: str, sides: Iterable[str] = ()) -> None:
    """Raise `ValidationFailed` if the file, or one beside it with one of the suffixes `sides`, can't be written.

    Files that do not exist yet are accepted.
    """
    for one in (path, *(path.with_name(path.name + side) for side in sides)):
        if os.path.exists(one) and not os.access(one, os.W_OK):  # noqa: PTH110 - Path.exists raises for too long a name
            raise ValidationFailed(
                f"{name} {one} can't be written ({why_not_writable(one)}): make it writable, or choose another with"
                f" {setting}"
            )


def why_not_writable(path: Path) -> str:
    """Return why what is there can't be written, after the system has said so: it has one answer for both reasons."""
    is_locked = hasattr(os, "statvfs") and os.statvfs(path).f_flag & READ_ONLY
    return "its disk is mounted read-only" if is_locked else "no permission to write"


def read_file(path: Path, *, name: str, setting: str) -> str | None:
    """Return the stripped text of the file; None if there is no file.

    Invalid UTF-8 is replaced. Raises `ValidationFailed` if the file can't be read.
    """
    try:
        return path.read_text(errors="replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be read ({error.strerror or error}): remove it, or choose another with {setting}"
        ) from None


def write_file(path: Path, text: str, *, name: str, setting: str) -> None:
    """Write the file atomically, readable by this user only from the start.

    Raises `ValidationFailed` if it can't be written; then it is unchanged.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.new")
    try:
        draft.unlink(missing_ok=True)
        try:
            with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE), "w") as file:
                file.write(text)
            draft.replace(path)
        except OSError:
            draft.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be written ({error.strerror or error}): make it writable, or choose another with"
            f" {setting}"
        ) from None


def close_to_others(path: Path) -> None:
    """Take all permissions on a file of this user from group and others."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS and _is_mine(path):
        path.chmod(mode & ~OTHERS)


def make_with_parents(path: Path) -> None:
    """Create the directory and each missing parent for this user only. Raises `NotADirectoryError`, and any `OSError`.

    Not as `Path.mkdir` does, which calls itself for each parent and fails for a thousand of them.
    """
    missing = list(takewhile(lambda one: not one.is_dir(), (path, *path.parents)))
    for one in reversed(missing):
        if one.exists() and not one.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{one} is not a directory")
        one.mkdir(mode=DIRECTORY, exist_ok=True)


def _is_mine(path: Path) -> bool:
    return not hasattr(os, "geteuid") or path.stat().st_uid == os.geteuid()


def _check_owner(path: Path, name: str, setting: str) -> None:
    if not _is_mine(path) and (owner := path.stat().st_uid) != 0:
        raise ValidationFailed(
            f"{name} {path} belongs to {_user(owner)}, who could read the tasks and forge every credential:"
            f" start the server as that user, or choose another with {setting}"
        )


def _user(number: int) -> str:
    import pwd

    try:
        return f"the user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"the user with the ID {number}"
