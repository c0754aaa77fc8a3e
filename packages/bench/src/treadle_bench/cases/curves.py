"""Costs that grow: drain and latency by pending or ended tasks, workers, queues, observers and payload size."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from treadle_bench.case import Case
from treadle_bench.cases.drains import drain, preload, workers_of
from treadle_bench.cases.submits import measure_latency
from treadle_bench.children import Child
from treadle_bench.figures import Figure, Sample, percentile
from treadle_bench.harness import Harness
from treadle_bench.testbed import Testbed

DRAIN, START, RESULT = "drain", "submit to start, p50", "submit to result, p50"
DRAINED = 20_000
PASSED = 50_000
"""How many tasks are drained at a time until enough have ended."""
LATENCIES = 100
MOST_JOBS = 9_990
"""The most queues for one worker, which also serves the latency tasks: a server takes up to 10,000."""
WORKER_PROCESSES = 2
"""The processes that many workers share: the curve is about their number, not about the machine's memory."""

_FIGURES = (
    Figure(name=DRAIN, unit="tasks/s"),
    Figure(name=START, unit="ms", is_rate=False),
    Figure(name=RESULT, unit="ms", is_rate=False),
)


def _latencies(testbed: Testbed, harness: Harness, x: int, *, size: int = 0) -> Iterator[Sample]:
    found = measure_latency(harness, testbed.count(LATENCIES), size=size)
    yield Sample(START, percentile(found["start"], 0.5), x)
    yield Sample(RESULT, percentile(found["result"], 0.5), x)


def _scaled(testbed: Testbed, points: Sequence[int]) -> list[int]:
    """Return the curve's points by the scale: each at least 1, unless it is 0, and without duplicates."""
    return list(dict.fromkeys(max(1, round(point * testbed.scale)) if point else 0 for point in points))


def _pending(testbed: Testbed) -> Iterator[Sample]:
    for x in _scaled(testbed, (1_000, 10_000, 100_000, 1_000_000)):
        with testbed.server() as harness:
            preload(harness, x)
            yield Sample(DRAIN, drain(harness, min(x, 5_000), workers_of(harness)), x)
        with testbed.server() as harness:
            # In a queue that the worker doesn't serve, because latency is measured on an idle worker.
            harness.run("submit", count=x, how="bulk", first_job=1)
            harness.start_worker()
            yield from _latencies(testbed, harness, x)


def _ended(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(DRAINED, least=100)
    with testbed.server() as harness:
        passed = 0
        for x in _scaled(testbed, (0, 10_000, 100_000, 1_000_000)):
            while passed < x:
                some = min(PASSED, x - passed)
                preload(harness, some)
                drain(harness, some, workers_of(harness))
                passed += some
            preload(harness, count)
            yield Sample(DRAIN, drain(harness, count, workers_of(harness)), x)
            passed += count
            worker = harness.start_worker()
            yield from _latencies(testbed, harness, x)
            worker.stop()


def _workers(testbed: Testbed) -> Iterator[Sample]:
    for x in _scaled(testbed, (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)):
        with testbed.server() as harness:
            count = testbed.count(DRAINED, least=100)
            preload(harness, count)
            yield Sample(DRAIN, drain(harness, count, partial(_start_workers, harness, x)), x)
            _start_workers(harness, x)
            yield from _latencies(testbed, harness, x)


def _start_workers(harness: Harness, workers: int) -> list[Child]:
    """Start this many workers, each with a concurrency of 10, or with a total of 100 if they are few."""
    processes = min(workers, WORKER_PROCESSES)
    shares = [workers // processes + (nth < workers % processes) for nth in range(processes)]
    return [harness.start_many_workers(share, concurrency=max(10, 100 // workers)) for share in shares]


def _jobs(testbed: Testbed) -> Iterator[Sample]:
    for x in _scaled(testbed, (1, 10, 100, 1_000, MOST_JOBS)):
        with testbed.server() as harness:
            count = testbed.count(DRAINED, least=100)
            preload(harness, count, jobs=x)
            yield Sample(DRAIN, drain(harness, count, workers_of(harness, jobs=x)), x)
            harness.start_worker(jobs=x)
            yield from _latencies(testbed, harness, x)


def _observers(testbed: Testbed) -> Iterator[Sample]:
    for x in _scaled(testbed, (0, 1, 5, 10, 20, 50)):
        with testbed.server() as harness, ExitStack() as stack:
            count = testbed.count(DRAINED, least=100)
            preload(harness, count)
            if x:
                stack.enter_context(harness.running("observe", observers=x))
            yield Sample(DRAIN, drain(harness, count, workers_of(harness)), x)
            harness.start_worker()
            yield from _latencies(testbed, harness, x)


def _payload(testbed: Testbed) -> Iterator[Sample]:
    for x in _scaled(testbed, (100, 1_000, 10_000, 100_000, 1_000_000)):
        with testbed.server() as harness:
            # A hundred megabytes are enough, whatever the size.
            count = min(testbed.count(DRAINED, least=100), max(100, 100_000_000 // x))
            preload(harness, count, size=x)
            yield Sample(DRAIN, drain(harness, count, workers_of(harness)), x)
            harness.start_worker()
            yield from _latencies(testbed, harness, x, size=x)


def _curve(name: str, axis: str, summary: str, measure: Callable[[Testbed], Iterator[Sample]]) -> Case:
    return Case(name=f"curve-{name}", summary=summary, figures=_FIGURES, measure=measure, axis=axis)


CURVES = (
    _curve("pending", "tasks pending", "the first 5,000, and an idle worker's latency, over what is pending", _pending),
    _curve("ended", "tasks ended", f"a drain of {DRAINED:,}, and latency, over the tasks that have ended", _ended),
    _curve("workers", "workers", f"a drain of {DRAINED:,}, and latency, over the number of workers", _workers),
    _curve("jobs", "queues", f"a drain of {DRAINED:,}, and latency, over the number of queues", _jobs),
    _curve("observers", "observers", f"a drain of {DRAINED:,}, and latency, over the number of dashboards", _observers),
    _curve("payload", "bytes of payload", "a drain of up to 100 MB, and latency, over the size of payloads", _payload),
)
