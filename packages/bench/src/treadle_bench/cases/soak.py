"""A server kept busy: its memory, descriptors, files, waits and backlog over time, and the figures for the bars.

Ten dashboards watch while tasks are submitted at a steady rate, and others one at a time to measure how long they wait.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from treadle_bench.case import Case
from treadle_bench.figures import Figure, Sample, percentile
from treadle_bench.harness import Harness, open_harness
from treadle_bench.machine import files_in
from treadle_bench.testbed import Testbed

PARTS, FEWEST = 12, 3
"""The number of parts that a soak is divided into, and the number for a soak of less than a minute."""

OBSERVERS = 10
SHORTEST = 1.0
"""The least number of seconds in a part: a submitter takes about as long to start."""


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at the end of a part; sizes in MB, waits in ms."""

    resident: float
    own: float
    descriptors: int
    files: int
    disk: float
    starts: Sequence[float]
    results: Sequence[float]
    backlog: int
    """Tasks that were submitted and have not completed."""
    submitted: int


OVER_TIME: tuple[tuple[str, str, Callable[[Look], float]], ...] = (
    ("memory, resident", "MB", lambda look: look.resident),
    ("memory, no mapped files", "MB", lambda look: look.own),
    ("descriptors, the server's", "open", lambda look: look.descriptors),
    ("files, in the data directory", "files", lambda look: look.files),
    ("disk, database and artifacts", "MB", lambda look: look.disk),
    ("wait, start p50", "ms", lambda look: percentile(look.starts, 0.5)),
    ("wait, start p99", "ms", lambda look: percentile(look.starts, 0.99)),
    ("wait, result p99", "ms", lambda look: percentile(look.results, 0.99)),
    ("backlog, not ended", "tasks", lambda look: look.backlog),
)
"""The curves: each with its unit, and its value at a look."""


def _soak(testbed: Testbed) -> Iterator[Sample]:
    parts = PARTS if testbed.soak.minutes >= 1 else FEWEST
    seconds = max(SHORTEST, testbed.soak.minutes * 60 / parts)
    looks: list[Look] = []
    with testbed.home() as home, open_harness(home) as harness, harness.running("observe", observers=OBSERVERS):
        harness.start_worker()
        for part in range(1, parts + 1):
            loads: dict[str, dict[str, Any]] = {
                "pace": {"rate": testbed.soak.rate, "seconds": seconds},
                "latency": {"seconds": seconds},
            }
            looks.append(_look(testbed, home, harness, harness.run_together(loads)))
            yield from (Sample(figure, value(looks[-1]), seconds / 60 * part) for figure, _, value in OVER_TIME)
    yield from judged(looks, asked=round(testbed.soak.rate * seconds) * parts, rate=testbed.soak.rate)


def _look(testbed: Testbed, home: dict[str, str], harness: Harness, answers: dict[str, Any]) -> Look:
    memory, counts = harness.server_memory(), harness.counts()
    files, size = files_in(home["TREADLE_DATA_DIR"])
    if (url := home.get("TREADLE_DATABASE_URL")) is not None:
        size += testbed.databases.size(url)
    return Look(
        resident=memory.resident,
        own=memory.own,
        descriptors=harness.server_descriptors(),
        files=files,
        disk=size,
        starts=answers["latency"]["start"],
        results=answers["latency"]["result"],
        backlog=sum(n for status, n in counts.items() if status != "completed"),
        submitted=answers["pace"]["submitted"],
    )


def judged(looks: Sequence[Look], *, asked: int, rate: int) -> Iterator[Sample]:
    """Return the figures for the bars: the growth over the second half, and how well the server kept up.

    Medians of several looks are compared, because a single look may fall on a bad moment of the machine.
    """
    half, third = max(1, len(looks) // 2), max(1, len(looks) // 3)
    middle, last = looks[third:-third], looks[-third:]
    yield Sample("server", looks[-1].resident)
    yield Sample("growth over the second half", 100 * (looks[-1].resident / looks[half - 1].resident - 1))
    before, after = (median(look.descriptors for look in part) for part in (middle, last))
    yield Sample("descriptors more, last third", after - before)
    before, after = (median(look.files for look in part) for part in (middle, last))
    yield Sample("files more, last third", after - before)
    before, after = (median(percentile(look.starts, 0.99) for look in part) for part in (middle, last))
    yield Sample("wait to the start, p99, last third of the one before", after / before)
    yield Sample("submitted, of what was asked", sum(look.submitted for look in looks) / asked)
    yield Sample("backlog at the end", looks[-1].backlog / rate)
    tasks = sum(look.submitted + len(look.starts) for look in looks[half:])
    yield Sample("disk for a task, second half", 1000 * (looks[-1].disk - looks[half - 1].disk) / tasks)


SOAK = Case(
    name="soak",
    summary=f"a server at work for an hour, 500 tasks a second (--minutes, --rate), with {OBSERVERS} dashboards:"
    " memory, descriptors, files, disk, waits and backlog over time",
    figures=(
        *(Figure(name=name, unit=unit, is_rate=False) for name, unit, _ in OVER_TIME),
        Figure(name="server", unit="MB", is_rate=False),
        Figure(name="growth over the second half", unit="%", is_rate=False),
        Figure(name="descriptors more, last third", unit="open", is_rate=False),
        Figure(name="files more, last third", unit="files", is_rate=False),
        Figure(name="wait to the start, p99, last third of the one before", unit="x", is_rate=False),
        Figure(name="submitted, of what was asked", unit="x"),
        Figure(name="backlog at the end", unit="s", is_rate=False),
        Figure(name="disk for a task, second half", unit="KB", is_rate=False),
    ),
    measure=_soak,
    is_once=True,
    axis="minutes",
)
