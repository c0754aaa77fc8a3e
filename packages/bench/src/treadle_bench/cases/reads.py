"""The cost of reads: positions, pages and counts with a million tasks in the table."""

from collections.abc import Iterator

from treadle_bench.case import Case
from treadle_bench.cases.drains import preload
from treadle_bench.figures import BenchFailed, Figure, Sample, percentile
from treadle_bench.harness import Harness
from treadle_bench.loads.tasks import make_job
from treadle_bench.testbed import Testbed

MILLION = 1_000_000
QUEUES = 10
READS = 200

_POSITION, _PAGE, _COUNTS = "position of a task", "page of 100 with positions", "counts of every queue"


def _reads(testbed: Testbed) -> Iterator[Sample]:
    with testbed.server() as harness:
        preload(harness, testbed.count(MILLION, least=1000), jobs=QUEUES)
        paths = _paths(harness)
        for _ in range(testbed.repeats):
            for figure, asked in paths.items():
                times = harness.run("read-http", paths=asked, count=testbed.count(READS))
                yield Sample(figure, percentile(times, 0.5))


def _paths(harness: Harness) -> dict[str, list[str]]:
    """Return the paths to read: tasks from all over a queue, the first page of every queue, and the list of queues."""
    queues = [f"/v1/rooms/@global/jobs/{make_job(number).full_name}/tasks" for number in range(QUEUES)]
    total = harness.ask(f"{queues[0]}?limit=0")["total"]
    tasks = [harness.ask(f"{queues[0]}?limit=1&offset={total * part // 10}")["items"][0]["id"] for part in range(10)]
    if missing := [task for task in tasks if not harness.ask(f"/v1/tasks/{task}")["queue_position"]]:
        raise BenchFailed(f"the task {missing[0]} is pending and has no position")
    return {
        _POSITION: [f"/v1/tasks/{task}" for task in tasks],
        _PAGE: [f"{queue}?limit=100" for queue in queues],
        _COUNTS: ["/v1/rooms/@global/jobs?limit=500"],
    }


READING = Case(
    name="reads",
    summary=f"over HTTP, p50 of {READS}, with 1,000,000 pending (bulk submits): 100,000 in each of {QUEUES} queues",
    figures=(
        Figure(name=_POSITION, unit="ms", is_rate=False),
        Figure(name=_PAGE, unit="ms", is_rate=False),
        Figure(name=_COUNTS, unit="ms", is_rate=False),
    ),
    measure=_reads,
    is_once=True,
)
