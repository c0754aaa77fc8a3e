"""The metrics that `/metrics` serves for Prometheus, collected on each request.

Tasks, workers and limits come from the database, in small statements, and are the same at every server; durations,
commits, sessions and notices are this process's own. `docs/monitoring.md` has each metric.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

from sqlalchemy import func, select

from treadle.wire.status import TERMINAL, Status, WorkerState
from treadle_server.distribution import WAITS, Distribution
from treadle_server.engine.engine import Engine
from treadle_server.errors import StoreUnavailable
from treadle_server.services.base import WELL
from treadle_server.services.rates import Rates
from treadle_server.store.read import limits, outcomes
from treadle_server.store.read.limit_keys import LimitView
from treadle_server.store.read.outcomes import Outcomes
from treadle_server.store.tables import workers

if TYPE_CHECKING:
    from prometheus_client.core import Metric

OTHERS = "(others)"
"""The `job` label of all jobs beyond those with a label of their own, which are the first registered."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

PATIENCE = 10.0
"""Seconds that the database has to answer, as long as Prometheus waits by default. While it stood still, the requests
of each scrape stayed and waited for each other."""

SESSIONS = ("worker", "observer", "client")
"""The kinds of session on the socket: it has a worker, watches something, or neither."""


class Described(NamedTuple):
    """A metric as it is documented."""

    kind: str
    labels: tuple[str, ...]
    help: str


METRICS: Mapping[str, Described] = {
    "treadle_tasks_total": Described("counter", ("job", "outcome"), "Tasks that have ended, by outcome"),
    "treadle_tasks": Described("gauge", ("job", "status"), "Tasks in each status"),
    "treadle_task_wait_seconds": Described(
        "histogram", ("job",), "Time from a task being due to the start of its first run"
    ),
    "treadle_task_run_seconds": Described("histogram", ("job",), "Duration of runs that completed or failed"),
    "treadle_workers": Described("gauge", ("state",), "Workers in each state"),
    "treadle_limit_used": Described("gauge", ("room", "limit"), "Weight in use under each limit, summed over its keys"),
    "treadle_limit_waiting": Described("gauge", ("room", "limit"), "Pending tasks that count against each limit"),
    "treadle_limit_keys": Described("gauge", ("room", "limit"), "Keys of each limit that are in use or waited for"),
    "treadle_batch_transitions": Described("histogram", (), "Task transitions written by one commit"),
    "treadle_commit_seconds": Described("histogram", (), "Duration of one transaction of the writer"),
    "treadle_service_up": Described("gauge", ("service",), "Whether a service of the server is healthy, 1 or 0"),
    "treadle_sessions": Described("gauge", ("kind",), "Open sessions on the socket"),
    "treadle_notices_total": Described("counter", ("direction",), "Notices between servers that share a database"),
}
"""Every metric by its name in queries."""


_Values = Mapping[tuple[str, ...], Any]
"""By the values of its labels: a number, or a histogram's `Distribution`."""

_Sample = tuple[str, _Values]


class Metrics:
    """Collects the metrics page, for one request at a time."""

    def __init__(self, engine: Engine, rates: Rates, *, most_jobs: int) -> None:
        self._engine = engine
        self._rates = rates
        self._most_jobs = most_jobs
        self._one_at_a_time = asyncio.Lock()
        self.sessions: Callable[[], Mapping[str, int]] = dict
        """Returns how many sessions of each kind there are."""
        self.states: Callable[[], Mapping[str, str]] = dict
        """Returns the state of each service."""
        self.notices: Callable[[], tuple[int, int]] = lambda: (0, 0)
        """Returns how many notices were sent, and how many received."""

    async def page(self) -> bytes:
        """Return the page in Prometheus' text format. Raises `StoreUnavailable`."""
        try:
            async with asyncio.timeout(PATIENCE), self._one_at_a_time:
                return await self._page()
        except TimeoutError:
            raise StoreUnavailable(f"the database has not answered for {PATIENCE:.0f} seconds") from None

    async def _page(self) -> bytes:
        async with self._engine.store.read() as connection:
            counted = await outcomes.by_job(connection)
            names = await outcomes.first_jobs(connection, self._most_jobs + 1)
            by_state = select(workers.c.state, func.count().label("n")).group_by(workers.c.state)
            states = {row.state: row.n for row in await connection.execute(by_state)}
            found = await limits.first(connection, self._most_jobs)
        if len(names) > self._most_jobs:
            # Zeros until something has ended, as for named jobs: `rate` can't see the increase of a counter that
            # starts at 3.
            names[max(names)] = OTHERS
        shown = [*self._of_tasks(names, counted), *_of_limits(found), *self._of_process(states)]
        # A hundred jobs are 5,000 lines, which take 70 ms: in a thread, so that the loop goes on meanwhile.
        return await asyncio.to_thread(_written, shown)

    def _of_tasks(self, names: Mapping[int, str], counted: Outcomes) -> Iterable[_Sample]:
        ended, standing = _by_name(names, counted.ended), _by_name(names, counted.standing)
        outcomes = [str(status) for status in sorted(TERMINAL)]
        statuses = [str(status) for status in Status]
        yield "treadle_tasks_total", {(job, outcome): n[outcome] for job, n in ended.items() for outcome in outcomes}
        yield "treadle_tasks", {(job, status): n[status] for job, n in standing.items() for status in statuses}
        yield "treadle_task_wait_seconds", _merged(names, self._rates.waited)
        yield "treadle_task_run_seconds", _merged(names, self._rates.ran)

    def _of_process(self, states: Mapping[str, int]) -> Iterable[_Sample]:
        sessions = self.sessions()
        sent, received = self.notices()
        yield "treadle_workers", {(state,): states.get(state, 0) for state in WorkerState}
        yield "treadle_batch_transitions", {(): self._engine.batch_rows.copy()}
        yield "treadle_commit_seconds", {(): self._engine.commit_seconds.copy()}
        yield "treadle_service_up", {(name,): state in WELL for name, state in self.states().items()}
        yield "treadle_sessions", {(kind,): sessions.get(kind, 0) for kind in SESSIONS}
        yield "treadle_notices_total", {("sent",): sent, ("received",): received}


def _of_limits(found: Iterable[LimitView]) -> Iterable[_Sample]:
    of = {(view.limit.room, view.limit.name): view for view in found}
    yield "treadle_limit_used", {labels: view.used for labels, view in of.items()}
    yield "treadle_limit_waiting", {labels: view.waiting for labels, view in of.items()}
    yield "treadle_limit_keys", {labels: len(view.buckets) for labels, view in of.items()}


def _by_name(names: Mapping[int, str], counts: Mapping[int, Counter[str]]) -> dict[str, Counter[str]]:
    """Return the counts by job name: every named job's, and those of all others together, if there are any."""
    found: dict[str, Counter[str]] = {name: Counter() for name in names.values()}
    for num, by_status in counts.items():
        found.setdefault(names.get(num, OTHERS), Counter()).update(by_status)
    return found


def _merged(names: Mapping[int, str], measured: Mapping[int, Distribution]) -> dict[tuple[str, ...], Distribution]:
    found: dict[tuple[str, ...], Distribution] = {}
    for num, distribution in list(measured.items()):
        found.setdefault((names.get(num, OTHERS),), Distribution(WAITS)).merge(distribution)
    return found


def _family(name: str, values: _Values) -> "Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    kind, labels, told = METRICS[name]
    if kind == "histogram":
        histogram = HistogramMetricFamily(name, told, labels=labels)
        for of_labels, distribution in values.items():
            histogram.add_metric(of_labels, distribution.buckets(), distribution.total)
        return histogram
    family = (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, told, labels=labels)
    for of_labels, value in values.items():
        family.add_metric(of_labels, value)
    return family


def _written(shown: Iterable[_Sample]) -> bytes:
    from prometheus_client import generate_latest

    families = [_family(name, values) for name, values in shown]
    registry: Any = SimpleNamespace(collect=lambda: families)
    return generate_latest(registry)
