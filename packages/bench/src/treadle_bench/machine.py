"""The machine that figures were taken on, and the versions of what was measured."""

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
    """A process's memory in MB: all that is resident, and what of it is no page of a mapped file."""

    resident: float
    own: float


def describe(scratch: Path) -> dict[str, str]:
    """Return what to know of the machine; `scratch` is the directory where databases are kept."""
    return {
        "taken": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "machine": f"{_processor()}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}",
        "load before": load(),
        "disk": f"{filesystem(scratch)}, fsync of 4 KiB {_sync_ms(scratch):.2f} ms",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    """Return the versions of the distributions that are installed."""
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
    """Return where temporary directories go: not into memory, where a database would be synced to nothing."""
    places = [Path(tempfile.gettempdir()), Path("/var/tmp"), Path.cwd()]  # noqa: S108 - a place among others
    return next((place for place in places if place.is_dir() and filesystem(place) not in MEMORY), places[0])


def filesystem(place: Path) -> str:
    """Return the kind of file system that a directory is on, or "unknown" where the platform does not tell."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return "unknown"
    fields = [line.split() for line in mounts.read_text().splitlines()]
    inside = [(len(mount), kind) for _, mount, kind, *_ in fields if place.resolve().is_relative_to(mount)]
    return max(inside)[1] if inside else "unknown"


def cpu_seconds_of(pid: int) -> float:
    """Return the processor time that a process has taken, as Linux tells it. Raises `BenchFailed` elsewhere."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        raise BenchFailed(f"processor time is read from /proc, which {sys.platform} has not, or {pid} ended") from None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(pid: int) -> Memory:
    """Return a process's resident memory, as Linux tells it. Raises `BenchFailed` elsewhere."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        raise BenchFailed(f"the memory of a process is read from /proc, which {sys.platform} has not") from None
    found = {name: int(size) * 1024 / 1e6 for name, size in re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE)}
    if "VmRSS" not in found:
        raise BenchFailed(f"process {pid} has ended")
    return Memory(resident=found["VmRSS"], own=found["RssAnon"])


def descriptors_of(pid: int) -> int:
    """Return how many files a process has open, as Linux tells it. Raises `BenchFailed` elsewhere."""
    try:
        return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - names alone are counted
    except OSError:
        raise BenchFailed(f"open files are read from /proc, which {sys.platform} has not, or {pid} ended") from None


def files_in(directory: str | Path) -> tuple[int, float]:
    """Return how many files there are in a directory, however deep, and their MB together; logs are left out."""
    sizes = []
    for place, _, names in os.walk(directory):
        for name in names:
            if name.endswith(".log"):
                continue
            # One may go while it is looked at.
            with suppress(FileNotFoundError):
                sizes.append(Path(place, name).stat().st_size)
    return len(sizes), sum(sizes) / 1e6


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _sync_ms(scratch: Path) -> float:
    """Return how long it takes to have 4 KiB more on the disk for good: the floor under every durable commit."""
    times = []
    with tempfile.TemporaryFile(dir=scratch) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
            times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)
