"""Paths that users write, and the default place where a server and local clients look for each other's files."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator


def user_path(path: Any) -> Path:
    """Return a path with a leading `~` replaced by the user's home, if any, since no shell has done that in a file.

    If `HOME` is empty there is none: `~/tasks` would become `/tasks`. Raises `ValueError` for an invalid path.
    """
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{path!r} is not a path: write it as a string")  # noqa: TRY004 - a validator's error
    if not os.fspath(path):
        raise ValueError("the path is empty, and would mean whatever directory the program is started in")
    text = os.fspath(path)
    if Path(text).parts[:1] != ("~",) or os.environ.get("HOME") != "":
        text = os.path.expanduser(text)  # noqa: PTH111 - `Path.expanduser` raises without a home
    check_name(text)
    return Path(text)


def check_name(text: str) -> None:
    """Raise `ValueError` for a name that no file, host or database can have: with NUL, or a lone surrogate."""
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} contains a lone surrogate, which no file name can") from None
    if b"\0" in encoded:
        raise ValueError(f"{text!r} contains a NUL character, which no file name can")


UserPath = Annotated[Path, BeforeValidator(user_path)]
"""The type of a setting that is such a path."""


def default_data_dir() -> Path:
    """Return `$XDG_DATA_HOME/treadle`, or `~/.local/share/treadle` unless that variable is an absolute path.

    A relative one would be another place in each directory. In many containers the user has no entry and so no home:
    then `~` stays as it is.
    """
    usual = "~/.local/share"
    given = user_path(os.environ.get("XDG_DATA_HOME") or usual)
    return (given if given.is_absolute() else user_path(usual)) / "treadle"
