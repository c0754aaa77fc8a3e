"""Estimates when a pending task will start, from its position, the workers of its queue, and run times.

The workers have slots that become free one after another, and each time the next task starts. This is simulated a few
times, with run times drawn from the measured distribution, and the median is shown. It tells what the workers can do;
if the queue has been full for a while, the measured pace may show that they do less.
"""

import heapq
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median

from treadle.wire.jobs import JobItem, Percentiles
from treadle.wire.names import INTERNAL
from treadle_tui.core.draw.format import since
from treadle_tui.core.state.workers import WorkerRow

MINUTE = 60.0
"""The seconds over which a queue's pace is measured."""

FULL_SECONDS = 20.0
"""How long a queue must have had more tasks than slots before its pace shows what its workers can do."""

ENOUGH_ENDS = 10
"""The least number of ended runs from which to measure a pace: fewer are too much a matter of chance."""

PLAYS = 9
"""How often the simulation is repeated. Nine times 200 positions take 2 ms."""

PLAYED = 200
"""How many positions are simulated; those behind them are extrapolated."""

HALVINGS = 10
"""The steps of a binary search: a thousandth of the range is close enough."""

PARTS = 50
"""How many samples make up a mean."""

MOST_SLOTS = 1000
"""The most slots that are simulated; the first ones stand for all."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A queue whose tasks compete with ours for the same slots."""

    waiting: float
    """How many of its tasks compete, at most."""
    run: Percentiles


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimated starts of a queue's tasks."""

    starts: Sequence[float]
    """In how many seconds the tasks in the first positions start."""
    slots: int
    run: Percentiles
    """How long runs of the job take."""
    pace: float | None = None
    """Starts per second, as measured over the last minute and scaled to the workers that serve now."""
    rivals: Sequence[Rival] = ()

    def seconds(self, position: int) -> float | None:
        """Return in how many seconds the task at this position is likely to start; None if that can't be estimated."""
        behind = position - len(self.starts)
        if behind > 0 and self.run.mean is None:
            return None if self.pace is None else position / self.pace
        soonest = self.starts[min(position, len(self.starts)) - 1] if self.starts else 0.0
        if behind > 0:
            work = behind * (self.run.mean or 0.0)
            for rival in self.rivals:
                still = min(rival.waiting, position) - min(rival.waiting, len(self.starts))
                work += still * (rival.run.mean or 0.0)
            soonest += work / self.slots
        return soonest if self.pace is None or position <= self.slots else max(soonest, position / self.pace)


def forecast(
    job: JobItem, pending: int, workers: Iterable[WorkerRow], jobs: Mapping[str, JobItem], now: datetime
) -> Forecast | None:
    """Return the forecast for a job's queue, given its linked workers; None if none of them serves it.

    It is also None for a paused job and for one that the server runs itself. `jobs` has all jobs by name, for the run
    times of others in the same slots.
    """
    linked = list(workers)
    serving = [worker for worker in linked if worker.serves]
    if job.paused or job.room_id == INTERNAL or not serving:
        return None
    run = _usual(job)
    held = [slot for worker in serving for slot in _slots(worker, now)][:MOST_SLOTS]
    rivals = _rivals(job, serving, jobs)
    running = {slot[0] for slot in held if slot is not None}
    simulation = Simulation(
        ours=Lengths(run),
        rivals=[(rival.waiting, Lengths(rival.run)) for rival in rivals],
        held=held,
        running={name: Lengths(_usual(jobs[name]) if name in jobs else run) for name in running},
    )
    # Fixed seeds, so that the estimate changes only when something has happened.
    plays = [simulation.play(random.Random(turn)) for turn in range(PLAYS)]
    starts = [median(places) for places in zip(*plays, strict=True)]
    return Forecast(starts, len(held), run, _pace(job, pending, linked, now), rivals)


def _usual(job: JobItem) -> Percentiles:
    return job.stats.run if job.stats is not None else Percentiles()


Slot = tuple[str, float] | None
"""The job of the run in a slot and how many seconds it has run; None for a free slot."""


def _slots(worker: WorkerRow, now: datetime) -> list[Slot]:
    """Return what each of a worker's slots holds."""
    item = worker.item
    held = item.running_count or len(item.running)
    # A slot here is the room for a run of the average weight of the worker's current runs.
    weight = max(1.0, item.used / held) if held else 1.0
    slots = max(1, round(item.concurrency / weight))
    listed = sorted(((run.job, run.seconds(now)) for run in worker.runs), key=lambda run: -run[1])[:slots]
    if not listed:
        return [None] * slots
    # Only the first runs are listed; assume that the others are like them.
    taken = [listed[place % len(listed)] for place in range(min(slots, held))]
    return [*taken, *[None] * (slots - len(taken))]


@dataclass(frozen=True, slots=True)
class Simulation:
    """The inputs of one simulation."""

    ours: "Lengths"
    rivals: "Sequence[tuple[float, Lengths]]"
    """For each rival, how many of its tasks wait and how long they take."""
    held: Sequence[Slot]
    running: "Mapping[str, Lengths]"
    """How long runs take, for the jobs that hold slots now."""

    def play(self, draw: random.Random) -> list[float]:
        """Return one possible series of starts, for the first positions."""
        free = [0.0 if slot is None else self.running[slot[0]].left(slot[1], draw) for slot in self.held]
        if not self.ours.known:
            return [0.0] * self.held.count(None)
        heapq.heapify(free)
        starts: list[float] = []
        while len(starts) < PLAYED:
            starts.append(free[0])
            heapq.heapreplace(free, free[0] + self.ours.draw(draw))
            for waiting, theirs in self.rivals:
                if len(starts) <= waiting:
                    heapq.heapreplace(free, free[0] + theirs.draw(draw))
        return starts


class Lengths:
    """A distribution of run times, interpolated from the measured percentiles."""

    def __init__(self, run: Percentiles) -> None:
        self.known = run.mean is not None
        self._mean = run.mean or 0.0
        told = ((0.5, run.p50), (0.9, run.p90), (0.95, run.p95), (0.99, run.p99))
        known = [(share, value) for share, value in told if value is not None] or [(0.5, self._mean)]
        # The lower half mirrors the upper half, so runs that all take equally long end at the same time.
        middle, high = known[0][1], known[min(1, len(known) - 1)][1]
        least = middle * middle / high if high else 0.0
        self._points = [(0.0, least), *known, (1.0, known[-1][1])]
        self._bend = 1.0
        self._fit()

    def _fit(self) -> None:
        """Find the exponent of the interpolation with which the mean is the measured one."""
        least, most = 0.1, 30.0
        for _ in range(HALVINGS):
            self._bend = (least * most) ** 0.5
            if fmean(self.at((place + 0.5) / PARTS) for place in range(PARTS)) > self._mean:
                least = self._bend
            else:
                most = self._bend

    def draw(self, draw: random.Random) -> float:
        """Return a random run time."""
        return self.at(draw.random())

    def left(self, age: float, draw: random.Random) -> float:
        """Return a random remaining time for a run of this age."""
        if not self.known:
            # Nothing is known but the run's age: assume that it is half over.
            return age
        passed = self._share_of(age)
        if passed >= 1:
            # It has outlasted every measured run and may go on for long: the measured ones may have failed at once.
            return max(self._mean, age - self._points[-1][1])
        return max(0.0, self.at(passed + draw.random() * (1 - passed)) - age)

    def at(self, share: float) -> float:
        """Return the run time that this share of the runs doesn't exceed."""
        for (low, begin), (high, end) in pairwise(self._points):
            if share <= high:
                part = float(((share - low) / (high - low)) ** self._bend)
                # Interpolate geometrically: between a second and a minute, most runs are nearer to the second.
                return begin * float((end / begin) ** part) if begin > 0 else end * part
        return self._points[-1][1]

    def _share_of(self, seconds: float) -> float:
        """Return the share of runs that take no longer than this."""
        least, most = 0.0, 1.0
        if seconds >= self._points[-1][1]:
            return 1.0
        for _ in range(HALVINGS):
            middle = (least + most) / 2
            least, most = (middle, most) if self.at(middle) <= seconds else (least, middle)
        return least


def _pace(job: JobItem, pending: int, linked: Sequence[WorkerRow], now: datetime) -> float | None:
    """Return how many tasks end per second while the queue is full, scaled to the workers that serve now.

    None if the queue has not been full for long enough, or too few runs have ended.
    """
    history, full = job.history, since(job.oldest_pending_at, now) or 0.0
    capacity = sum(worker.item.concurrency for worker in linked if worker.serves)
    if history is None or history.step_seconds <= 0 or full < FULL_SECONDS or pending <= capacity:
        return None
    # Leave out the current step, which has not ended, and the one in which the queue became full.
    steps = min(int(MINUTE // history.step_seconds), int(full // history.step_seconds) - 1)
    if steps <= 0:
        return None
    ended = sum(history.completed[-1 - steps : -1]) + sum(history.failed[-1 - steps : -1])
    lately = sum(worker.item.concurrency * _present(worker, steps * history.step_seconds, now) for worker in linked)
    if ended < ENOUGH_ENDS or not lately:
        return None
    return ended / (steps * history.step_seconds) * capacity / lately


def _present(worker: WorkerRow, seconds: float, now: datetime) -> float:
    """Return for which share of the last seconds the worker was present."""
    come = min(seconds, max(0.0, since(worker.item.created_at, now) or 0.0))
    gone = 0.0 if worker.serves else min(seconds, worker.quiet)
    return max(0.0, come - gone) / seconds


def _rivals(job: JobItem, serving: Sequence[WorkerRow], jobs: Mapping[str, JobItem]) -> list[Rival]:
    """Return the queues whose tasks compete with ours for slots."""
    ours = sum(worker.item.concurrency for worker in serving)
    found = []
    for other in jobs.values():
        waiting, run = other.counts.get("pending", 0), _usual(other)
        if other.id == job.id or not waiting or other.paused or run.mean is None:
            continue
        shared = sum(worker.item.concurrency for worker in serving if worker.id in other.workers) / ours
        if shared:
            found.append(Rival(waiting * shared, run))
    return found
