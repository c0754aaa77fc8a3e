"""Whether there is room on a disk, and whether it can be written."""

import os
from pathlib import Path

from treadle.wire.amounts import in_bytes
from treadle.wire.findings import Finding, Seen
from treadle_server.private import READ_ONLY

MB = 1000**2
TOO_LITTLE = 100 * MB
"""Free bytes below which it is as good as full: SQLite's log alone may take 16 MiB, and submits come at once."""

LITTLE = 1024 * MB
"""Free bytes below which it is soon full."""

FEW_FILES = 1000
"""Files that can still be made, below which it is soon full as well: artifacts are files."""

OF_ARTIFACTS = "the directory of artifacts"


def look(name: str, path: Path) -> Seen:
    """Look at the disk on which `path` is, or the nearest directory above it that there is.

    On that of artifacts alone stands no database: submits go on, and what is removed leaves room.

    Raises `OSError` when it can't be looked at.
    """
    place = path.absolute()
    while not place.exists():
        place = place.parent
    found = os.statvfs(place)
    # What is there for who is not root.
    free, size = found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
    told = f"{in_bytes(free)} of {in_bytes(size)} are free on the disk of {name} {path}"
    if found.f_flag & READ_ONLY:
        return [Finding("disk", "fail", f"the disk of {name} {path} is mounted read-only: nothing can be written",
                        "look for the reason in the kernel log (dmesg), and remount it read-write")]  # fmt: skip
    if not os.access(place, os.W_OK | os.X_OK):  # after an error of the disk too, which no flag tells
        return [Finding("disk", "fail", f"nothing can be written to {name} {place}",
                        "check its permissions and the kernel log (dmesg): the disk may have failed")]  # fmt: skip
    if free < TOO_LITTLE:
        refused, advice = ("uploads", _ROOM) if name == OF_ARTIFACTS else ("submits", _ROOM_NOW)
        return [Finding("disk", "fail", f"{told}: that is too little; once it is full, {refused} are refused with 503",
                        advice)]  # fmt: skip
    if found.f_files and found.f_favail < FEW_FILES:
        means = f"only {found.f_favail} files" if found.f_favail else "no file"
        return [Finding("disk", "warn" if found.f_favail else "fail",
                        f"{means} can be made on the disk of {name} {path}: it is out of inodes", _ROOM)]  # fmt: skip
    if free < LITTLE:
        return [Finding("disk", "warn", f"{told}: it will soon be full", _ROOM)]
    return [Finding("disk", "ok", told)]


def is_elsewhere(path: Path, directory: Path) -> bool:
    """Return whether `path` may be on another disk than the directory: it is not below it, or is mounted there."""
    if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(directory)):
        return True
    # A Path's own raises where it may not look, and is asked before all checks.
    return os.path.ismount(path)


_ROOM = "free space, or remove ended tasks sooner (TREADLE_RETENTION_…, treadle prune)"

_ROOM_NOW = "free space by other means: removing tasks needs space too, and does not shrink the database's file"
