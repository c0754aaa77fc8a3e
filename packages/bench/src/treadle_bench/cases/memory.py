"""A server's memory while a million tasks pass through it."""

import time
from collections.abc import Iterator, Mapping

from treadle.wire.amounts import in_seconds
from treadle_bench.case import Case
from treadle_bench.cases.reads import MILLION
from treadle_bench.figures import BenchFailed, Figure, Sample
from treadle_bench.harness import Harness
from treadle_bench.machine import Memory
from treadle_bench.testbed import Testbed

AHEAD = 20_000
"""The number of tasks that are submitted at once."""

PORTION_SECONDS = 600.0
"""How long these may take."""


def _memory(testbed: Testbed) -> Iterator[Sample]:
    total = testbed.count(MILLION, least=200)
    sizes = _sizes(testbed, total)
    for passed, size in sizes.items():
        yield Sample("server", size.resident, passed)
        yield Sample("of it no mapped files", size.own, passed)
    yield from judged(sizes)


def judged(sizes: Mapping[int, Memory]) -> Iterator[Sample]:
    """Return the figures for the bars: the memory after all tasks, and its growth since the first 30 %."""
    last = max(sizes)
    warm = next(sizes[passed] for passed in sorted(sizes) if passed >= 0.3 * last)
    yield Sample("server", sizes[last].resident)
    yield Sample("growth over the last 70 %", 100 * (sizes[last].resident / warm.resident - 1))


def _sizes(testbed: Testbed, total: int) -> dict[int, Memory]:
    """Let this many tasks pass through, and return the server's memory after each tenth of them."""
    portion = min(AHEAD, total // 10)
    sizes: dict[int, Memory] = {}
    passed = 0
    with testbed.server() as harness:
        harness.start_worker()
        while passed < total:
            before, passed = passed, min(passed + portion, total)
            harness.run("submit", count=passed - before, how="bulk")
            _wait_for(harness, passed)
            if passed * 10 // total > before * 10 // total:
                sizes[passed] = harness.server_memory()
    return sizes


def _wait_for(harness: Harness, completed: int) -> None:
    limit = time.monotonic() + PORTION_SECONDS
    while harness.counts().get("completed", 0) < completed:
        if time.monotonic() > limit:
            raise BenchFailed(f"{AHEAD:,} tasks were not completed in {in_seconds(PORTION_SECONDS)}")
        time.sleep(0.1)


MEMORY = Case(
    name="memory",
    summary=f"the server's resident memory while 1,000,000 tasks pass through, {AHEAD:,} at a time",
    figures=(
        Figure(name="server", unit="MB", is_rate=False),
        Figure(name="of it no mapped files", unit="MB", is_rate=False),
        Figure(name="growth over the last 70 %", unit="%", is_rate=False),
    ),
    measure=_memory,
    is_once=True,
    axis="tasks passed",
)
