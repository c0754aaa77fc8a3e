"""Files that the dashboard writes, and the completion of their paths."""

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from errno import EINVAL
from pathlib import Path
from typing import Any

MOST = 200
"""The most names in a directory that are offered."""


def path_of(typed: str) -> Path:
    """Return the typed path; `~` is the user's home, and `~name` another user's, if that user exists."""
    return _expanded(typed.strip())


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - it never raises


def completions(typed: str) -> list[str]:
    """Return the paths that start as typed, with `~` kept and directories with a slash; none if listing fails."""
    head, slash, begun = typed.rpartition("/")
    if typed == "~":
        return ["~/"]
    directory = _expanded(head + slash) if slash else Path()
    try:
        entries = sorted(os.scandir(directory), key=lambda entry: entry.name)
    except OSError:
        return []
    shown = [entry for entry in entries if entry.name.startswith(begun) and (begun or not entry.name.startswith("."))]
    return [f"{head}{slash}{entry.name}{'/' if entry.is_dir() else ''}" for entry in shown[:MOST]]


async def exists(path: Path) -> bool:
    """Return whether the file exists. Raises `OSError` if the path is something other than a regular file."""
    return await asyncio.to_thread(_exists, path)


def _exists(path: Path) -> bool:
    if path.exists() and not path.is_file():
        # Otherwise a privileged user would replace /dev/null with a file, for everyone.
        raise OSError(EINVAL, "this is not a regular file and won't be overwritten", str(path))
    return path.exists()


async def write_json(path: Path, content: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write a JSON object atomically, so that nobody ever finds half a file.

    Raises `FileExistsError` if the file exists and must not be overwritten, and another `OSError` if writing fails or
    the path is something other than a regular file.
    """
    await asyncio.to_thread(_write_json, path, content, overwrite=overwrite)


def _write_json(path: Path, content: Mapping[str, Any], *, overwrite: bool) -> None:
    if overwrite:
        _exists(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        if overwrite:
            draft.replace(path)
        else:
            # Unlike a rename, a link never replaces a file that was created meanwhile.
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
