"""Costs that grow: drain and latency over what is pending, workers, queues, observers, and the payload's size."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from treadle.bench.drains import drain, preload, workers_of
from treadle.bench.figures import Case, Figure, Sample, percentile
from treadle.bench.stage import Run, Stage
from treadle.bench.submits import measure_latency
from treadle.demo.children import Child

DRAIN, START, RESULT = "drain", "submit to start, p50", "submit to result, p50"
DRAINED = 20_000
LATENCIES = 100
CREW_PROCESSES = 2
"""Processes that many workers share: their number is what is looked at, not the machine's memory."""

_FIGURES = (
    Figure(name=DRAIN, unit="tasks/s"),
    Figure(name=START, unit="ms", is_rate=False),
    Figure(name=RESULT, unit="ms", is_rate=False),
)


def _latencies(run: Run, stage: Stage, x: int, *, size: int = 0) -> Iterator[Sample]:
    found = measure_latency(stage, run.count(LATENCIES), size=size)
    yield Sample(START, percentile(found["start"], 0.5), x)
    yield Sample(RESULT, percentile(found["result"], 0.5), x)


def _scaled(run: Run, points: Sequence[int]) -> list[int]:
    """Return the curve's points by the scale: each at least 1, and none twice."""
    return list(dict.fromkeys(max(1, round(point * run.scale)) if point else 0 for point in points))


def _pending(run: Run) -> Iterator[Sample]:
    for x in _scaled(run, (1_000, 10_000, 100_000, 1_000_000)):
        with run.server() as stage:
            preload(stage, x)
            yield Sample(DRAIN, drain(stage, min(x, 5_000), workers_of(stage)), x)
        with run.server() as stage:
            # A queue that the worker does not serve: an idle worker is what latency is measured on.
            stage.play("submit", count=x, how="bulk", first_job=1)
            stage.start_worker()
            yield from _latencies(run, stage, x)


def _workers(run: Run) -> Iterator[Sample]:
    for x in _scaled(run, (1, 2, 5, 10, 20, 50, 100, 200)):
        with run.server() as stage:
            count = run.count(DRAINED, least=100)
            preload(stage, count)
            yield Sample(DRAIN, drain(stage, count, partial(_crew, stage, x)), x)
            _crew(stage, x)
            yield from _latencies(run, stage, x)


def _crew(stage: Stage, workers: int) -> list[Child]:
    """Start so many workers, each with a concurrency of 10 or, when they are few, with 100 among them."""
    processes = min(workers, CREW_PROCESSES)
    shares = [workers // processes + (nth < workers % processes) for nth in range(processes)]
    return [stage.start_crew(share, concurrency=max(10, 100 // workers)) for share in shares]


def _jobs(run: Run) -> Iterator[Sample]:
    for x in _scaled(run, (1, 10, 100, 1_000)):
        with run.server() as stage:
            count = run.count(DRAINED, least=100)
            preload(stage, count, jobs=x)
            yield Sample(DRAIN, drain(stage, count, workers_of(stage, jobs=x)), x)
            stage.start_worker(jobs=x)
            yield from _latencies(run, stage, x)


def _observers(run: Run) -> Iterator[Sample]:
    for x in _scaled(run, (0, 1, 5, 10, 20, 50)):
        with run.server() as stage, ExitStack() as stack:
            count = run.count(DRAINED, least=100)
            preload(stage, count)
            if x:
                stack.enter_context(stage.playing("observe", observers=x))
            yield Sample(DRAIN, drain(stage, count, workers_of(stage)), x)
            stage.start_worker()
            yield from _latencies(run, stage, x)


def _payload(run: Run) -> Iterator[Sample]:
    for x in _scaled(run, (100, 1_000, 10_000, 100_000, 1_000_000)):
        with run.server() as stage:
            # A hundred megabytes are enough of any size.
            count = min(run.count(DRAINED, least=100), max(100, 100_000_000 // x))
            preload(stage, count, size=x)
            yield Sample(DRAIN, drain(stage, count, workers_of(stage)), x)
            stage.start_worker()
            yield from _latencies(run, stage, x, size=x)


def _curve(name: str, axis: str, summary: str, measure: Callable[[Run], Iterator[Sample]]) -> Case:
    return Case(name=f"curve-{name}", summary=summary, figures=_FIGURES, measure=measure, axis=axis)


CURVES = (
    _curve("pending", "tasks pending", "the first 5,000, and an idle worker's latency, over what is pending", _pending),
    _curve("workers", "workers", f"a drain of {DRAINED:,}, and latency, over the number of workers", _workers),
    _curve("jobs", "queues", f"a drain of {DRAINED:,}, and latency, over the number of queues", _jobs),
    _curve("observers", "observers", f"a drain of {DRAINED:,}, and latency, over the number of dashboards", _observers),
    _curve("payload", "bytes of payload", "a drain of up to 100 MB, and latency, over the size of payloads", _payload),
)
