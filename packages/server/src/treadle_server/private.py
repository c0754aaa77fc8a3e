"""Files and directories that are this user's alone: in them are what people submitted, and the keys that sign for them.

Who may write in a directory puts another file in a file's place, so a directory that belongs to somebody else is no
place for them; root's may be used, and root's alone by root. Windows keeps a user's files from others by itself.
"""

import errno
import os
import stat
from collections.abc import Iterable
from pathlib import Path

from treadle_server.errors import ValidationFailed

DIRECTORY, FILE = 0o700, 0o600
OTHERS = 0o077
"""The permissions of group and others."""


def make_directory(path: Path, *, name: str, setting: str) -> Path:
    """Make the directory and what is missing above it, for this user alone, and return it.

    `name` is what it is called in an error, `setting` where another one is chosen. Raises `ValidationFailed` when it
    can't be made or written, or belongs to another user.
    """
    try:
        _make(path)
        _check_owner(path, name, setting)
        if not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(0, "it may not be written")
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be used ({error.strerror or error}): make it writable, or choose another with"
            f" {setting}"
        ) from None
    return path


def make_file(path: Path, *, name: str, setting: str, sides: Iterable[str] = ()) -> None:
    """Have the file be there, empty if it is new, and closed to others if it was not.

    So are the files beside it whose names end with one of `sides`. Raises `ValidationFailed` when it can't be, is
    another user's, or a link to what is not there: an empty one is not made where a disk is not mounted.
    """
    try:
        # One that is there is not opened: closing it would end what other connections of this process have locked.
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        if not os.path.exists(path):  # noqa: PTH110 - a Path's own raises where it may not look
            raise ValidationFailed(
                f"{name} {path} is a link to {path.readlink()}, which can't be found: look whether its disk is mounted,"
                f" remove the link, or choose another with {setting}"
            ) from None
        _check_owner(path, name, setting)
    except OSError as error:
        raise ValidationFailed(
            f"{name} {path} can't be made ({error.strerror or error}): choose another with {setting}"
        ) from None
    close_to_others(path)
    for one in (path.with_name(path.name + side) for side in sides):
        if one.exists():
            close_to_others(one)


def check_writable(path: Path, *, name: str, setting: str, sides: Iterable[str] = ()) -> None:
    """Raise `ValidationFailed` when the file, or one beside it whose name ends with one of `sides`, may not be written.

    One that is not there yet is none of them.
    """
    for one in (path, *(path.with_name(path.name + side) for side in sides)):
        if one.exists() and not os.access(one, os.W_OK):
            raise ValidationFailed(
                f"{name} {one} may not be written: make it writable, or choose another with {setting}"
            )


def read_file(path: Path, *, name: str, setting: str) -> str | None:
    """Return what stands in the file, without the blanks around it; None when there is none.

    What is no text has signs in it that say so. Raises `ValidationFailed` when it can't be read.
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
    """Put the file there in one step, readable by this user alone from the first moment on.

    Raises `ValidationFailed` when it can't be written; then it is as it was before.
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
            f"{name} {path} can't be written ({error.strerror or error}): see to it that it can, or choose another with"
            f" {setting}"
        ) from None


def close_to_others(path: Path) -> None:
    """Take from group and others what they may do with a file of this user."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & OTHERS and _is_mine(path):
        path.chmod(mode & ~OTHERS)


def _make(path: Path) -> None:
    """Make the directory, and each one above that is missing, with the same permissions."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(errno.ENOTDIR, f"{path} is no directory")
    _make(path.parent)
    path.mkdir(mode=DIRECTORY, exist_ok=True)


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
        return f"the user with the number {number}"
