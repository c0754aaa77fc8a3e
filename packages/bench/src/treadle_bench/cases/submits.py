"""Submits and latencies over the socket, and the gain from batched writes."""

from collections.abc import Iterator

from treadle_bench.case import Case
from treadle_bench.figures import Figure, Sample, percentile
from treadle_bench.harness import Harness
from treadle_bench.testbed import Testbed

ONE, MANY, BULK = "one by one", "100 coroutines", "bulk of 1,000"

_SHAPES = (("one", ONE, 2_000), ("many", MANY, 10_000), ("bulk", BULK, 20_000))

LATENCIES = 200
"""The number of tasks whose latency is measured in each repetition."""


def submit_rate(harness: Harness, count: int, how: str) -> float:
    """Submit this many tasks, and return the rate per second."""
    seconds: float = harness.run("submit", count=count, how=how)["seconds"]
    return count / seconds


def measure_latency(harness: Harness, count: int, *, size: int = 0) -> dict[str, list[float]]:
    """Submit tasks one at a time to the running workers; return sorted ms to `start` and to `result`."""
    found: dict[str, list[float]] = harness.run("latency", count=count, size=size)
    return {name: sorted(values) for name, values in found.items()}


def _submit(testbed: Testbed) -> Iterator[Sample]:
    with testbed.server() as harness:
        for how, figure, most in _SHAPES:
            yield Sample(figure, submit_rate(harness, testbed.count(most), how))


def _latency(testbed: Testbed) -> Iterator[Sample]:
    with testbed.server() as harness:
        harness.start_worker()
        found = measure_latency(harness, testbed.count(LATENCIES))
    for name, values in found.items():
        yield Sample(f"submit to {name}, p50", percentile(values, 0.5))
        yield Sample(f"submit to {name}, p99", percentile(values, 0.99))


def _batching(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(10_000)
    with testbed.server(TREADLE_WRITER_MAX_ROWS="1") as harness:
        single = submit_rate(harness, count, "many")
    with testbed.server() as harness:
        batched = submit_rate(harness, count, "many")
    yield Sample("a commit each", single)
    yield Sample("batched", batched)
    yield Sample("gain", batched / single)


def _latency_figures() -> tuple[Figure, ...]:
    names = ("start, p50", "start, p99", "result, p50", "result, p99")
    return tuple(Figure(name=f"submit to {name}", unit="ms", is_rate=False) for name in names)


SUBMITS = (
    Case(
        name="submit",
        summary="no-ops over the socket: 2,000 each after the other, 10,000 by 100 coroutines, 20,000 in bulk",
        figures=(
            Figure(name=ONE, unit="tasks/s"),
            Figure(name=MANY, unit="tasks/s"),
            Figure(name=BULK, unit="tasks/s"),
        ),
        measure=_submit,
    ),
    Case(
        name="latency",
        summary=f"{LATENCIES} tasks one at a time to an idle worker: to their first line, and to the result in hand",
        figures=_latency_figures(),
        measure=_latency,
    ),
    Case(
        name="batching",
        summary="10,000 submits by 100 coroutines, with a commit for each and with batches, in turn",
        figures=(
            Figure(name="a commit each", unit="tasks/s"),
            Figure(name="batched", unit="tasks/s"),
            Figure(name="gain", unit="x"),
        ),
        measure=_batching,
    ),
)
