"""Drains: previously submitted tasks are completed as fast as server and workers can."""

import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from treadle.wire.amounts import in_seconds
from treadle_bench.case import Case
from treadle_bench.children import Child
from treadle_bench.figures import POSTGRESQL, BenchFailed, Figure, Sample
from treadle_bench.harness import Harness, open_harness
from treadle_bench.loads.running import until
from treadle_bench.testbed import Testbed

STALL_SECONDS = 60.0
"""How long a drain may go without another completion."""

SOON, SELDOM = 0.01, 0.5
"""The least and the most seconds between two looks at the store."""

FASTEST = 100_000
"""More tasks per second than any drain completes: the next look comes no later than a whole drain at this rate would
take. Without this, a drain of 6,000 that took 0.3 s but began slowly was looked at after 0.02 s and then 0.5 s, and
seemed to have taken all of that.
"""

PLAIN = 50_000
"""The number of tasks in a plain drain."""

BURSTS = (6_000, 100_000)
"""The numbers of tasks that are drained on a database without statistics."""

FIRST = 5_000
"""How many completions to wait for if many more tasks are pending."""


def preload(harness: Harness, count: int, *, jobs: int = 1, size: int = 0) -> None:
    """Submit tasks in bulk. Raises `BenchFailed` if not all of them are pending afterwards."""
    before = harness.counts().get("pending", 0)
    harness.run("submit", count=count, how="bulk", jobs=jobs, size=size)
    pending = harness.counts().get("pending", 0) - before
    if pending != count:
        raise BenchFailed(f"{count} tasks were submitted, and {pending} are pending")


class CompletedAt(NamedTuple):
    """How many tasks of a drain were completed, at a time of the monotonic clock."""

    at: float
    done: int


class Meter:
    """Measures the processor time from a drain's first start to its end. `backends` returns that of the database."""

    def __init__(self, harness: Harness, backends: Callable[[], float | None]) -> None:
        self._harness = harness
        self._backends = backends
        self._begun: tuple[float, float | None] = (0.0, None)
        self.seconds = 0.0
        """The time of the server and the workers, and of the database if it runs on this machine."""

    def begin(self, workers: list[Child]) -> None:
        """Wait until a worker has started its first task, and measure from there."""
        until(self._harness.has_started, workers[0], "no task was started")
        self._begun = self._now(workers)

    def end(self, workers: list[Child]) -> None:
        """Measure until now."""
        ours, theirs = self._now(workers)
        self.seconds = ours - self._begun[0]
        if theirs is not None and self._begun[1] is not None:
            self.seconds += theirs - self._begun[1]

    def _now(self, workers: list[Child]) -> tuple[float, float | None]:
        return self._harness.cpu_seconds(*workers), self._backends()


def drain(harness: Harness, take: int, start: Callable[[], list[Child]], *, meter: Meter | None = None) -> float:
    """Start workers, and return tasks per second from the first start to the completion of the last of `take` tasks.

    The store is polled for completions, and the rate between the last two answers is assumed to be constant. Raises
    `BenchFailed` if a worker ends or there is no progress.
    """
    harness.forget_starts()
    base = harness.counts().get("completed", 0)
    workers = start()
    try:
        if meter is not None:
            meter.begin(workers)
        before, after = _watch(harness, workers, base, take)
        if meter is not None:
            meter.end(workers)
    finally:
        for worker in workers:
            worker.stop()
    return rate_of(take, harness.first_start(), before, after)


def rate_of(take: int, first: float, before: CompletedAt, after: CompletedAt) -> float:
    """Return tasks per second from the `first` start to the completion of `take`, which was between two looks."""
    since = max(before.at, first)
    share = (take - before.done) / (after.done - before.done)
    return take / (since + (after.at - since) * share - first)


def _watch(harness: Harness, workers: list[Child], base: int, take: int) -> tuple[CompletedAt, CompletedAt]:
    """Return the last look with fewer than `take` completions, and the first look with at least as many."""
    before = moved = CompletedAt(time.monotonic(), 0)
    while True:
        done = harness.counts().get("completed", 0) - base
        # Take the time after the answer: the request may have waited, and the count includes tasks that ended
        # meanwhile.
        look = CompletedAt(time.monotonic(), done)
        if look.done >= take:
            return before, look
        if ended := [worker for worker in workers if not worker.is_running]:
            raise BenchFailed(f"{ended[0].name} ended by itself:\n{ended[0].output()[-2000:]}")
        if look.done > before.done:
            moved = look
        elif look.at - moved.at > STALL_SECONDS:
            raise BenchFailed(f"no task was completed for {in_seconds(STALL_SECONDS)}, after {look.done} of {take}")
        pause = _pause(before, look, take)
        before = look
        time.sleep(pause)


def _pause(before: CompletedAt, look: CompletedAt, take: int) -> float:
    """Return the pause before the next look: half of the estimated rest, so that most looks are near the end."""
    most = min(SELDOM, take / FASTEST)
    if look.done == before.done:
        return SOON
    left = (take - look.done) * (look.at - before.at) / (look.done - before.done)
    return max(SOON, min(most, left / 2))


def workers_of(harness: Harness, *, workers: int = 1, jobs: int = 1) -> Callable[[], list[Child]]:
    """Return a function that starts worker processes with a concurrency of 100 each."""
    return lambda: [harness.start_worker(jobs=jobs) for _ in range(workers)]


def _plain(testbed: Testbed, workers: int) -> float:
    count = testbed.count(PLAIN, least=100)
    with testbed.server() as harness:
        preload(harness, count)
        return drain(harness, count, workers_of(harness, workers=workers))


def _drain(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(PLAIN, least=100)
    with testbed.home() as home:
        url = home.get("TREADLE_DATABASE_URL")
        with open_harness(home) as harness:
            before = testbed.databases.written(url) if url else None
            preload(harness, count)
            meter = Meter(harness, lambda: testbed.databases.backends_cpu(url) if url else 0.0)
            yield Sample("1 worker", drain(harness, count, workers_of(harness), meter=meter))
            yield Sample("processor time", meter.seconds / count * 1e6)
        if url and before:
            # The server has exited, so its connections have reported their statistics.
            after = testbed.databases.written(url)
            yield Sample("log written for a task", (after.log - before.log) / count)
            yield Sample("rows written for a task", (after.rows - before.rows) / count)


def _drain_2(testbed: Testbed) -> Iterator[Sample]:
    yield Sample("2 workers", _plain(testbed, 2))


def _pending(testbed: Testbed, pending: int, *, rounds: int) -> Iterator[Sample]:
    plain = [_plain(testbed, 1) for _ in range(rounds)]
    for rate in plain:
        yield Sample("plain drain", rate)
    for jobs in (1, 100):
        with testbed.server() as harness:
            preload(harness, testbed.count(pending, least=1000), jobs=jobs)
            for nth in range(rounds):
                rate = drain(harness, testbed.count(FIRST, least=100), workers_of(harness, jobs=jobs))
                yield Sample(f"first {FIRST:,}, {_queues(jobs)}", rate)
                yield Sample(f"of the plain drain, {_queues(jobs)}", rate / plain[nth])


def _burst(testbed: Testbed) -> Iterator[Sample]:
    plain = _plain(testbed, 1)
    yield Sample("plain drain", plain)
    for size in BURSTS:
        count = testbed.count(size, least=100)
        with testbed.home() as home, open_harness(home) as harness:
            testbed.databases.stop_analyzing(home["TREADLE_DATABASE_URL"])
            preload(harness, count)
            rate = drain(harness, count, workers_of(harness))
        yield Sample(_burst_of(size), rate)
        yield Sample(f"of the plain drain, {_burst_of(size)}", rate / plain)


def _burst_of(size: int) -> str:
    return f"burst of {size:,}"


def _burst_figures() -> tuple[Figure, ...]:
    rates = tuple(Figure(name=_burst_of(size), unit="tasks/s") for size in BURSTS)
    shares = tuple(Figure(name=f"of the plain drain, {_burst_of(size)}", unit="x") for size in BURSTS)
    return (Figure(name="plain drain", unit="tasks/s"), *rates, *shares)


def _queues(jobs: int) -> str:
    return "1 job" if jobs == 1 else f"{jobs} jobs"


def _pending_figures() -> tuple[Figure, ...]:
    rates = tuple(Figure(name=f"first {FIRST:,}, {_queues(jobs)}", unit="tasks/s") for jobs in (1, 100))
    shares = tuple(Figure(name=f"of the plain drain, {_queues(jobs)}", unit="x") for jobs in (1, 100))
    return (Figure(name="plain drain", unit="tasks/s"), *rates, *shares)


DRAINS = (
    Case(
        name="drain",
        summary=f"{PLAIN:,} no-ops preloaded, drained by 1 worker process with a concurrency of 100",
        figures=(
            Figure(name="1 worker", unit="tasks/s"),
            Figure(name="processor time", unit="us", is_rate=False),
            Figure(name="log written for a task", unit="bytes", is_rate=False),
            Figure(name="rows written for a task", unit="rows", is_rate=False),
        ),
        measure=_drain,
    ),
    Case(
        name="drain-2",
        summary="the same with 2 worker processes",
        figures=(Figure(name="2 workers", unit="tasks/s"),),
        measure=_drain_2,
    ),
    Case(
        name="drain-burst",
        summary="right after a burst of 6,000 and of 100,000, on a database that nobody analyzed",
        figures=_burst_figures(),
        measure=_burst,
        databases=(POSTGRESQL,),
    ),
    Case(
        name="pending-100k",
        summary=f"the first {FIRST:,} of 100,000 pending, in 1 queue and spread over 100",
        figures=_pending_figures(),
        measure=lambda testbed: _pending(testbed, 100_000, rounds=1),
    ),
    Case(
        name="pending-1m",
        summary=f"the first {FIRST:,} of 1,000,000 pending, loaded once by bulk submits for all repetitions",
        figures=_pending_figures(),
        measure=lambda testbed: _pending(testbed, 1_000_000, rounds=testbed.repeats),
        is_once=True,
    ),
)
