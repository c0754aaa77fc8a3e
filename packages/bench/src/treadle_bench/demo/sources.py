"""Which files the demo examines."""

import os
import sysconfig
from pathlib import Path

INSTALLED = frozenset({"site-packages", "dist-packages", "__pycache__"})
"""Directories of a standard library with other people's code, or without source code."""


def standard_library() -> Path:
    """Return the directory of the running Python's standard library."""
    return Path(sysconfig.get_path("stdlib"))


def python_files(root: Path) -> list[str]:
    """Return `.py` files under `root`, relative to it and sorted, without installed packages. `root` may be a file."""
    if root.is_file():
        return [root.name]
    found: list[str] = []
    for directory, inner, names in os.walk(root):
        inner[:] = [name for name in inner if name not in INSTALLED]
        paths = (Path(directory, name) for name in names if name.endswith(".py"))
        found += (path.relative_to(root).as_posix() for path in paths if path.is_file())
    return sorted(found)
