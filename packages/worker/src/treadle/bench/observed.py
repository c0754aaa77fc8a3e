"""What dashboards cost the work that they look at."""

from collections.abc import Iterator

from treadle.bench.drains import PLAIN, drain, preload, workers_of
from treadle.bench.figures import BenchFailed, Case, Figure, Sample, on_both
from treadle.bench.stage import Run

OBSERVERS = 20


def _observers(run: Run) -> Iterator[Sample]:
    count = run.count(PLAIN, least=100)
    rates = {}
    for observers in (0, OBSERVERS):
        rates[observers] = observed_drain(run, count, observers)
    yield Sample("alone", rates[0])
    yield Sample(f"with {OBSERVERS} observers", rates[OBSERVERS])
    yield Sample("cost", 100 * (1 - rates[OBSERVERS] / rates[0]))


def observed_drain(run: Run, count: int, observers: int) -> float:
    """Return the rate of a drain that so many dashboards look at. Raises `BenchFailed` when they see nothing."""
    with run.server() as stage:
        preload(stage, count)
        if not observers:
            return drain(stage, count, workers_of(stage))
        with stage.playing("observe", observers=observers) as stop:
            rate = drain(stage, count, workers_of(stage))
            seen = stop()
    # Four snapshots each, at least.
    if seen["frames"] < observers:
        raise BenchFailed(f"{observers} observers have seen {seen['frames']} frames")
    return rate


OBSERVED = (
    Case(
        name="observers",
        summary=f"a drain of {PLAIN:,} without and with {OBSERVERS} dashboards on sockets, in turn",
        figures=(
            Figure(name="alone", unit="tasks/s"),
            Figure(name=f"with {OBSERVERS} observers", unit="tasks/s"),
            Figure(name="cost", unit="%", bars=on_both(10), is_rate=False),
        ),
        measure=_observers,
    ),
)
