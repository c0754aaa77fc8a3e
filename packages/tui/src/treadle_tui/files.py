"""Files that the dashboard writes, and their names as they are typed."""

import asyncio
import json
import os
import tempfile
from collections.abc import Mapping
from errno import EINVAL
from pathlib import Path
from typing import Any

MOST = 200
"""How many names of a directory are offered."""


def path_of(typed: str) -> Path:
    """Return the path that was typed; `~` is the reader's home, `~name` another's if there is one of that name."""
    return _expanded(typed.strip())


def _expanded(path: str) -> Path:
    return Path(os.path.expanduser(path))  # noqa: PTH111 - it raises never


def completions(typed: str) -> list[str]:
    """Return the paths that begin as typed, directories with a slash, `~` kept; none where nothing can be listed."""
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
    """Return whether there is a file of that name. Raises `OSError` where something else stands than a file."""
    return await asyncio.to_thread(_exists, path)


def _exists(path: Path) -> bool:
    if path.exists() and not path.is_file():
        # Who may, would have /dev/null replaced by a file, for all who write there.
        raise OSError(EINVAL, "no file stands there, and what does is not overwritten", str(path))
    return path.exists()


async def write_json(path: Path, content: Mapping[str, Any], *, overwrite: bool) -> None:
    """Write a JSON object, whole or not at all: a reader never finds half a file, nor does another user.

    Raises `FileExistsError` when there is one and it may not be overwritten, and other `OSError`s, also where something
    else stands than a file.
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
            # Unlike a rename, a link never takes the place of a file that came meanwhile.
            path.hardlink_to(draft)
    finally:
        draft.unlink(missing_ok=True)
