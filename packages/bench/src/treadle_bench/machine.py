"""The machine that figures were measured on, and the versions of what was measured."""

import os
import platform
import re
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from treadle_bench.figures import BenchFailed

PACKAGES = (
    "treadle", "treadle-server", "pydantic", "websockets", "uvicorn", "uvloop", "starlette", "sqlalchemy", "aiosqlite",
    "asyncpg", "orjson",
)  # fmt: skip
"""The distributions whose versions matter."""

SYNCS = 50
MEMORY = frozenset({"tmpfs", "ramfs"})


class Memory(NamedTuple):
    """A process's memory in MB: all that is resident, and the anonymous part, without pages of mapped files."""

    resident: float
    own: float


def describe(scratch: Path) -> dict[str, str]:
    """Return facts about the machine; `scratch` is the directory for databases."""
    return {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        "load before": load(),
        "disk": f"{filesystem(scratch)}, fsync of 4 KiB {_sync_ms(scratch):.2f} ms",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of the installed distributions."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def load() -> str:
    """Return the load averages of the last 1, 5 and 15 minutes."""
    return " ".join(f"{average:.2f}" for average in os.getloadavg())


def scratch_directory() -> Path:
    """Return a directory for temporary data that is not in memory, where syncing a database would cost nothing."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()]  # noqa: S108 - a place among others
    return next((place for place in places if place.is_dir() and filesystem(place) not in MEMORY), places[0])


def filesystem(place: Path) -> str:
    """Return the kind of file system that a directory is on; "unknown" if the platform doesn't tell."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    fields = [line.split() for line in mounts.read_text().splitlines()]
    inside = [(len(mount), kind) for _, mount, kind, *_ in fields if place.resolve().is_relative_to(mount)]
    return max(inside)[1] if inside else "unknown"


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time that a process has used, from Linux's /proc. Raises `BenchFailed` elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise BenchFailed(
            f"processor time is read from /proc, which {sys.platform} does not have, or {pid} ended"
        ) from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> Memory:
    """Return a process's resident memory, from Linux's /proc. Raises `BenchFailed` elsewhere."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        raise BenchFailed(f"the memory of a process is read from /proc, which {sys.platform} does not have") from None
    found = {name: int(size) * 1024 / 1e6 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE)}
    if "VmRSS" not in found:
        raise BenchFailed(f"process {pid} has ended")
    return Memory(resident=found["VmRSS"], own=found["RssAnon"])


def descriptors_of(pid: int) -> int:
    """Return how many files a process has open, from Linux's /proc. Raises `BenchFailed` elsewhere."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - only names are counted
    except OSError:
        raise BenchFailed(
            f"open files are read from /proc, which {sys.platform} does not have, or {pid} ended"
        ) from None


def files_in(directory: str | Path) -> tuple[int, float]:
    """Return how many files a directory tree has, and their total size in MB; logs are left out."""
    sizes = []
    for place, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".log"):
                continue
            # A file may disappear meanwhile.
            with suppress(FileNotFoundError):
                sizes.append(Path(place, name).stat().st_size)
    return len(sizes), sum(sizes) / 1e6


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _sync_ms(scratch: Path) -> float:
    """Return how long it takes to sync another 4 KiB to the disk: the lower bound for every durable commit."""
    times = []
    with tempfile.TemporaryFile(dir=scratch) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)
