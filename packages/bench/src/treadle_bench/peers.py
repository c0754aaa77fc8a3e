"""Other task queues, measured in turn with ours by scripts that print one line of JSON each."""

import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from treadle_bench.cases.submits import BULK, MANY, ONE
from treadle_bench.children import reap, wait, without_treadle
from treadle_bench.figures import BenchFailed, Ratio, Row

PEER_SECONDS = 1800
"""How long a round of a peer may take."""

STOP_SECONDS = 10.0
"""How long an interrupted peer may take to end."""

COUNTERPARTS: dict[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("submit", ONE): (("one_by_one", "median"),),
    ("submit", MANY): (("hundred_at_once", "median"),),
    ("submit", BULK): (("bulk", "median"),),
    ("drain", "1 worker"): (("drain_20k", "median"), ("drain_50k", "median")),
    ("drain", "processor time"): (("drain_cpu_us", "median"),),
    ("pending-100k", "first 5,000, 1 job"): (("first_5k_of_100k", "median"),),
    ("latency", "submit to start, p50"): (("submit_to_start", "p50_ms"),),
    ("latency", "submit to start, p99"): (("submit_to_start", "p99_ms"),),
}
"""A peer's figures that correspond to ours, by case and figure; the best of several counts."""


@dataclass(slots=True)
class Peer:
    """A script, the command that runs it, and what it printed in each round."""

    name: str
    command: list[str]
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def run(self, scratch: Path) -> None:
        """Measure once, with the peer's store in a temporary directory in `scratch`. Raises `BenchFailed`."""
        with TemporaryDirectory(prefix="treadle-bench-peer-", dir=scratch, ignore_cleanup_errors=True) as directory:
            environment = {**without_treadle(), "PEER_REPEATS": "1", "TMPDIR": directory}
            process = subprocess.Popen(  # noqa: S603 - the user's own script
                self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment,
                start_new_session=True,
            )  # fmt: skip
            try:
                output, errors = process.communicate(timeout=PEER_SECONDS)
            except subprocess.TimeoutExpired:
                raise BenchFailed(f"{self.name} took longer than {PEER_SECONDS} s") from None
            finally:
                _end(process)
        lines = [line for line in output.splitlines() if line.startswith("{")]
        if process.returncode != 0 or not lines:
            raise BenchFailed(f"{self.name} ended with {process.returncode}: {errors[-1000:]}")
        self.rounds.append(json.loads(lines[-1]))

    def best(self, places: Iterable[tuple[str, ...]], *, is_rate: bool) -> float | None:
        """Return the best of several figures, each the median of its rounds; None if the peer has none of them."""
        found = [[value for one in self.rounds if (value := _at(one, place)) is not None] for place in places]
        medians = [median(values) for values in found if values]
        return (max if is_rate else min)(medians, default=None)


def _end(process: "subprocess.Popen[str]") -> None:
    """End a peer that is still running: by SIGINT, so that it can end its own store, then with its whole group."""
    if process.poll() is not None:
        return
    os.killpg(process.pid, signal.SIGINT)
    wait(process, STOP_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    reap(process)


def find_peers(directory: Path) -> list[Peer]:
    """Return a peer for each `*_peer.py` in the directory.

    A script is run by the line of the directory's README.md that names it (`uv run … python …/x_peer.py`), or else by
    itself, with its dependencies as in PEP 723. Raises `BenchFailed` if there are no scripts.
    """
    readme = directory / "README.md"
    text = readme.read_text() if readme.exists() else ""
    scripts = sorted(directory.glob("*_peer.py"))
    if not scripts:
        raise BenchFailed(f"{directory} has no *_peer.py")
    return [Peer(script.stem.removesuffix("_peer"), _command(script.resolve(), text)) for script in scripts]


def _command(script: Path, readme: str) -> list[str]:
    found = re.search(rf"^\s*(uv run .*\bpython) \S*{re.escape(script.name)}\s*$", readme, re.MULTILINE)
    return [*shlex.split(found[1]), str(script)] if found else ["uv", "run", "--no-project", "--script", str(script)]


def ratios(peers: Iterable[Peer], rows: Sequence[Row]) -> list[Ratio]:
    """Return our ratio to each peer, wherever both have measured the same."""
    found = []
    for peer in peers:
        for row in rows:
            places = COUNTERPARTS.get((row.case, row.figure))
            theirs = peer.best(places, is_rate=row.is_rate) if places else None
            if theirs:
                found.append(_ratio(peer, row, theirs))
    return found


def _ratio(peer: Peer, row: Row, theirs: float) -> Ratio:
    return Ratio(
        peer=peer.rounds[-1].get("peer", peer.name),
        case=row.case,
        database=row.database,
        figure=row.figure,
        unit=row.unit,
        ours=row.median,
        theirs=theirs,
        ratio=row.median / theirs if row.is_rate else theirs / row.median,
    )


def _at(figures: Mapping[str, Any], place: Iterable[str]) -> float | None:
    value: Any = figures
    for name in place:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, int | float) else None
