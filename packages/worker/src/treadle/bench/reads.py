"""What it costs to look: positions, pages and counts with a million tasks in the table."""

from collections.abc import Iterator

from treadle.bench.drains import preload
from treadle.bench.figures import BenchFailed, Case, Figure, Sample, percentile
from treadle.bench.stage import Run, Stage
from treadle.bench.tasks import make_job

MILLION = 1_000_000
QUEUES = 10
READS = 200

_POSITION, _PAGE, _COUNTS = "position of a task", "page of 100 with positions", "counts of every queue"


def _reads(run: Run) -> Iterator[Sample]:
    with run.server() as stage:
        preload(stage, run.count(MILLION, least=1000), jobs=QUEUES)
        paths = _paths(stage)
        for _ in range(run.repeats):
            for figure, asked in paths.items():
                times = stage.play("read-http", paths=asked, count=run.count(READS))
                yield Sample(figure, percentile(times, 0.5))


def _paths(stage: Stage) -> dict[str, list[str]]:
    """Return what to ask for: tasks all over a queue, the far ends of all queues, and the list of queues."""
    queues = [f"/v1/rooms/@global/jobs/{make_job(number).full_name}/tasks" for number in range(QUEUES)]
    total = stage.ask(f"{queues[0]}?limit=0")["total"]
    tasks = [stage.ask(f"{queues[0]}?limit=1&offset={total * part // 10}")["items"][0]["id"] for part in range(10)]
    if missing := [task for task in tasks if not stage.ask(f"/v1/tasks/{task}")["queue_position"]]:
        raise BenchFailed(f"the task {missing[0]} is pending and has no position")
    return {
        _POSITION: [f"/v1/tasks/{task}" for task in tasks],
        _PAGE: [f"{queue}?limit=100" for queue in queues],
        _COUNTS: ["/v1/rooms/@global/jobs?limit=500"],
    }


READING = (
    Case(
        name="reads",
        summary=f"over HTTP, p50 of {READS}, with 1,000,000 pending (bulk submits): 100,000 in each of {QUEUES} queues",
        figures=(
            Figure(name=_POSITION, unit="ms", is_rate=False),
            Figure(name=_PAGE, unit="ms", is_rate=False),
            Figure(name=_COUNTS, unit="ms", is_rate=False),
        ),
        measure=_reads,
        is_once=True,
    ),
)
