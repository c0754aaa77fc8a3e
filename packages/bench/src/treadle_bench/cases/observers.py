"""What dashboards cost the work that they watch."""

from collections.abc import Iterator

from treadle_bench.case import Case
from treadle_bench.cases.drains import PLAIN, drain, preload, workers_of
from treadle_bench.figures import BenchFailed, Figure, Sample, percentile
from treadle_bench.testbed import Testbed

OBSERVERS = 20


def _observers(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(PLAIN, least=100)
    alone, _ = observed_drain(testbed, count, 0)
    watched, ages = observed_drain(testbed, count, OBSERVERS)
    yield Sample("alone", alone)
    yield Sample(f"with {OBSERVERS} observers", watched)
    yield Sample("cost", 100 * (1 - watched / alone))
    if ages:
        yield Sample("lag, p95", percentile(ages, 0.95))


def observed_drain(testbed: Testbed, count: int, observers: int) -> tuple[float, list[float]]:
    """Return the rate of a drain watched by this many dashboards, and the ages, in ms, of what they were shown.

    Raises `BenchFailed` if they see nothing.
    """
    with testbed.server() as harness:
        preload(harness, count)
        if not observers:
            return drain(harness, count, workers_of(harness)), []
        with harness.running("observe", observers=observers) as stop:
            rate = drain(harness, count, workers_of(harness))
            seen = stop()
    # Each should have received at least four snapshots.
    if seen["frames"] < observers:
        raise BenchFailed(f"{observers} observers have seen {seen['frames']} frames")
    return rate, seen["ages"]


OBSERVED = Case(
    name="observers",
    summary=f"a drain of {PLAIN:,} without and with {OBSERVERS} dashboards on sockets, in turn",
    figures=(
        Figure(name="alone", unit="tasks/s"),
        Figure(name=f"with {OBSERVERS} observers", unit="tasks/s"),
        Figure(name="cost", unit="%", is_rate=False),
        Figure(name="lag, p95", unit="ms", is_rate=False),
    ),
    measure=_observers,
)
