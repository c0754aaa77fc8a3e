"""What a server weighs while a million tasks pass through it, and in an hour with those who look on."""

import time
from collections.abc import Iterator

from treadle.bench.figures import BenchFailed, Case, Figure, Sample
from treadle.bench.reads import MILLION
from treadle.bench.stage import Memory, Run, Stage

AHEAD = 20_000
"""Tasks that are submitted at once."""

HOUR, PARTS = 3600.0, 12
"""How long the soak lasts, and how often its memory is noted meanwhile."""

SOAK_RATE, SOAK_OBSERVERS = 500, 10

PORTION_SECONDS = 600.0
"""How long so many may take."""


def _memory(run: Run) -> Iterator[Sample]:
    total = run.count(MILLION, least=200)
    sizes = _sizes(run, total)
    for passed, size in sizes.items():
        yield Sample("server", size.resident, passed)
        yield Sample("of it no mapped files", size.own, passed)
    settled = next(size for passed, size in sizes.items() if passed >= 0.3 * total)
    yield Sample("growth over the last 70 %", 100 * (sizes[total].resident / settled.resident - 1))


def _sizes(run: Run, total: int) -> dict[int, Memory]:
    """Let so many tasks pass, and return the server's memory after each tenth of them."""
    portion = min(AHEAD, total // 10)
    sizes: dict[int, Memory] = {}
    passed = 0
    with run.server() as stage:
        stage.start_worker()
        while passed < total:
            before, passed = passed, min(passed + portion, total)
            stage.play("submit", count=passed - before, how="bulk")
            _wait_for(stage, passed)
            if passed * 10 // total > before * 10 // total:
                sizes[passed] = stage.server_memory()
    return sizes


def _wait_for(stage: Stage, completed: int) -> None:
    limit = time.monotonic() + PORTION_SECONDS
    while stage.counts().get("completed", 0) < completed:
        if time.monotonic() > limit:
            raise BenchFailed(f"{AHEAD:,} tasks were not completed in {PORTION_SECONDS:g} s")
        time.sleep(0.1)


def _soak(run: Run) -> Iterator[Sample]:
    seconds = max(PARTS, HOUR * run.scale)
    sizes = []
    with run.server() as stage, stage.playing("observe", observers=SOAK_OBSERVERS):
        stage.start_worker()
        for part in range(1, PARTS + 1):
            stage.play("pace", rate=SOAK_RATE, seconds=seconds / PARTS)
            sizes.append(stage.server_memory())
            yield Sample("by now", sizes[-1].resident, seconds / 60 * part / PARTS)
            yield Sample("of it no mapped files, by now", sizes[-1].own, seconds / 60 * part / PARTS)
    yield Sample("server", sizes[-1].resident)
    yield Sample("growth over the second half", 100 * (sizes[-1].resident / sizes[PARTS // 2 - 1].resident - 1))


LASTING = (
    Case(
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
    ),
    Case(
        name="soak",
        summary=f"the server's memory in an hour of {SOAK_RATE} tasks a second, with {SOAK_OBSERVERS} dashboards",
        figures=(
            Figure(name="by now", unit="MB", is_rate=False),
            Figure(name="of it no mapped files, by now", unit="MB", is_rate=False),
            Figure(name="server", unit="MB", is_rate=False),
            Figure(name="growth over the second half", unit="%", is_rate=False),
        ),
        measure=_soak,
        is_once=True,
        axis="minutes",
    ),
)
