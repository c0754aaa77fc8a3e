"""Several servers on one PostgreSQL, and a reader that holds a snapshot."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

from treadle_bench.case import Case
from treadle_bench.cases.drains import PLAIN, drain, preload, workers_of
from treadle_bench.cases.submits import LATENCIES, measure_latency
from treadle_bench.children import Child
from treadle_bench.figures import POSTGRESQL, Figure, Sample, percentile
from treadle_bench.harness import Harness, open_harness
from treadle_bench.testbed import Testbed

SERVERS = (1, 2, 4)
WORKERS = 4
"""Worker processes, spread over the servers: the same number with one server as with four."""

HELD_SECONDS, HELD_RATE = 600.0, 1_000
"""How long a snapshot is held, and how many tasks per second pass meanwhile."""


def _servers(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(PLAIN, least=100)
    rates: dict[int, float] = {}
    for servers in SERVERS:
        with testbed.home() as home, ExitStack() as stack:
            harnesses = [stack.enter_context(open_harness(home)) for _ in range(servers)]
            preload(harnesses[0], count)
            rates[servers] = drain(harnesses[0], count, partial(_workers_at, harnesses))
        yield Sample(_named(servers), rates[servers])
        if servers > 1:
            yield Sample(f"of one server, {_named(servers)}", rates[servers] / rates[1])


def _workers_at(harnesses: Sequence[Harness]) -> list[Child]:
    return [harnesses[n % len(harnesses)].start_worker() for n in range(WORKERS)]


def _named(servers: int) -> str:
    return "1 server" if servers == 1 else f"{servers} servers"


def _held(testbed: Testbed) -> Iterator[Sample]:
    count = testbed.count(PLAIN, least=100)
    with testbed.home() as home, open_harness(home) as harness:
        before, before_p99 = _drained(harness, count), _p99(testbed, harness)
        with harness.running("snapshot", database=home["TREADLE_DATABASE_URL"]):
            worker = harness.start_worker()
            harness.run("pace", rate=HELD_RATE, seconds=max(1.0, HELD_SECONDS * testbed.scale))
            worker.stop()
            held, held_p99 = _drained(harness, count), _p99(testbed, harness)
        after = _drained(harness, count)
    yield Sample("drain before", before)
    yield Sample("drain while it is held", held)
    yield Sample("drain after", after)
    yield Sample("drain, of the one before", held / before)
    yield Sample("submit to start, p99, before", before_p99)
    yield Sample("submit to start, p99, while it is held", held_p99)
    yield Sample("p99, of the one before", held_p99 / before_p99)


def _drained(harness: Harness, count: int) -> float:
    preload(harness, count)
    return drain(harness, count, workers_of(harness))


def _p99(testbed: Testbed, harness: Harness) -> float:
    worker = harness.start_worker()
    try:
        return percentile(measure_latency(harness, testbed.count(LATENCIES))["start"], 0.99)
    finally:
        worker.stop()


SEVERAL = (
    Case(
        name="servers",
        summary=f"a drain of {PLAIN:,} by {WORKERS} worker processes through 1, 2 and 4 servers on one PostgreSQL",
        figures=(
            *(Figure(name=_named(servers), unit="tasks/s") for servers in SERVERS),
            *(Figure(name=f"of one server, {_named(servers)}", unit="x") for servers in SERVERS[1:]),
        ),
        measure=_servers,
        databases=(POSTGRESQL,),
    ),
    Case(
        name="held",
        summary="ten minutes of 1,000 tasks a second while another session holds a snapshot, then a drain beside it",
        figures=(
            Figure(name="drain before", unit="tasks/s"),
            Figure(name="drain while it is held", unit="tasks/s"),
            Figure(name="drain after", unit="tasks/s"),
            Figure(name="drain, of the one before", unit="x"),
            Figure(name="submit to start, p99, before", unit="ms", is_rate=False),
            Figure(name="submit to start, p99, while it is held", unit="ms", is_rate=False),
            Figure(name="p99, of the one before", unit="x", is_rate=False),
        ),
        measure=_held,
        databases=(POSTGRESQL,),
        is_once=True,
    ),
)
