"""Paths that a person writes, and where a server and those beside it look for each other's files."""

import os
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator


def user_path(path: Any) -> Path:
    """Return a path whose beginning `~` is the user's home, where there is one; no shell replaced it in a file.

    Where `HOME` is empty there is none: `~/tasks` would be `/tasks`.

    Raises `ValueError` for what no file can be called.
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
    """Raise `ValueError` for what no file, host or database can be called: with a NUL, or half of a character."""
    try:
        encoded = os.fsencode(text)
    except UnicodeEncodeError:
        raise ValueError(f"{text!r} contains a lone surrogate, which no file name can") from None
    if b"\0" in encoded:
        raise ValueError(f"{text!r} contains a NUL character, which no file name can")


UserPath = Annotated[Path, BeforeValidator(user_path)]
"""A setting that is such a path."""


def default_data_dir() -> Path:
    """Return `$XDG_DATA_HOME/treadle`, which is `~/.local/share/treadle` unless that is set to a path from the root on.

    A relative one would be another place in each directory. A user who is in no list has no home, as in many a
    container: `~` stays what it is then.
    """
    usual = "~/.local/share"
    given = user_path(os.environ.get("XDG_DATA_HOME") or usual)
    return (given if given.is_absolute() else user_path(usual)) / "treadle"
