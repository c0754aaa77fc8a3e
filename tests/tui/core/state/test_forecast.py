"""When tasks will start, against when they do: a simulated shop with bursts, dead workers and runs of all lengths."""

import heapq
import random
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import pytest

from tests.tui.mock import NOON
from tests.tui.scene import at, job, worker
from treadle.wire.jobs import JobItem
from treadle.wire.workers import WorkerItem
from treadle_server.services.histogram import Histogram
from treadle_server.services.rates import percentiles
from treadle_tui.core.state.forecast import Forecast, forecast
from treadle_tui.core.state.workers import worker_row

LEASE = 60.0
"""Seconds after its worker's death in which a run is put in again."""

STEP = 10.0
SLICE = 300.0

CLOSE = 2.0
"""Seconds of difference that nobody minds, whatever the factor."""

RUNS = 250
"""Of how many the server has told how long they took, before anything is foretold."""

OURS, THEIRS = "@global:tasks:ours", "@global:tasks:theirs"

Draw = Callable[[random.Random], float]


def even(rng: random.Random) -> float:
    return 12.0


def memoryless(rng: random.Random) -> float:
    return rng.expovariate(1 / 8)


def mixed(rng: random.Random) -> float:
    """Nine short ones for each long one."""
    return rng.uniform(20, 40) if rng.random() < 0.1 else rng.uniform(0.5, 1.5)


def tiny(rng: random.Random) -> float:
    return rng.uniform(0.01, 0.03)


@dataclass
class Crew:
    """A worker of the shop."""

    name: str
    slots: int
    jobs: tuple[str, ...] = (OURS,)
    came: float = -3600.0
    died: float | None = None
    runs: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Of each task that it holds its job, and since when."""


class Shop:
    """Queues and workers by a clock of its own; it remembers when each task started."""

    def __init__(self, seed: int, durations: dict[str, Draw], *, overhead: float = 0.0) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.crews: list[Crew] = []
        self.queues: dict[str, deque[tuple[int, float]]] = {name: deque() for name in durations}
        self.started: dict[int, float] = {}
        self.ended: dict[str, list[tuple[float, float]]] = {name: [] for name in durations}
        """Of each run its end, and how long it took."""
        self._durations = durations
        self._overhead = overhead
        self._numbers = count()
        self._due: list[tuple[float, int, Crew, str, int]] = []
        self._turns = deque(durations)

    def submit(self, name: str, number: int) -> None:
        self.queues[name] += [(next(self._numbers), self.now) for _ in range(number)]
        self._hand_out()

    def kill(self, crew: Crew) -> None:
        crew.died = self.now

    def _hand_out(self) -> None:
        for crew in self.crews:
            while crew.died is None and crew.came <= self.now and len(crew.runs) < crew.slots:
                name = next((name for name in self._turns if name in crew.jobs and self.queues[name]), None)
                if name is None:
                    break
                self._turns.remove(name)
                self._turns.append(name)
                key, _ = self.queues[name].popleft()
                self.started[key] = self.now
                crew.runs[key] = (name, self.now)
                seconds = self._durations[name](self.rng)
                heapq.heappush(self._due, (self.now + seconds + self._overhead, key, crew, name, 0))

    def run_until(self, when: float) -> None:
        while self._due and self._due[0][0] <= when:
            self.now, key, crew, name, lost = heapq.heappop(self._due)
            if crew.died is None or self.now < crew.died:
                since = crew.runs.pop(key)[1]
                self.ended[name].append((self.now, self.now - since - self._overhead))
            elif not lost:
                heapq.heappush(self._due, (max(self.now, crew.died + LEASE), key, crew, name, 1))
            else:
                del crew.runs[key]
                self.queues[name].appendleft((key, self.now))
            self._hand_out()
        self.now = when
        self._hand_out()

    # As the server tells of it.

    def job(self, name: str) -> JobItem:
        queue = self.queues[name]
        waited = [self.now - came for _, came in queue]
        row = job(
            name,
            sorted(self.queues).index(name),
            counts={"pending": len(queue)},
            wave=0,
            oldest=max(waited, default=None),
            workers=[self._item(crew).id for crew in self.crews if name in crew.jobs],
        )
        row["history"] = {"step_seconds": STEP, "completed": self._steps(name), "failed": [0] * 30}
        told = Histogram(1)
        for when, seconds in self.ended[name]:
            if self.now - when < 3 * SLICE:
                told.add(seconds)
        row["stats"]["run"] = percentiles(told)
        return JobItem.model_validate(row)

    def _steps(self, name: str) -> list[int]:
        present, steps = int(self.now // STEP), [0] * 30
        for when, _ in self.ended[name]:
            if (ago := present - int(when // STEP)) < 30:
                steps[-1 - ago] += 1
        return steps

    def _item(self, crew: Crew) -> WorkerItem:
        quiet = 0.0 if crew.died is None else self.now - crew.died
        row = worker(crew.name, self.crews.index(crew), quiet=quiet, running=[], concurrency=crew.slots)
        running = [
            {"task_id": str(key), "run_id": 0, "job_name": name, "since": at(self.now - since)}
            for key, (name, since) in crew.runs.items()
        ]
        row |= {"running": running, "running_count": len(running), "used": len(running)}
        row |= {"created_at": at(self.now - crew.came), "beat_seconds": 2}
        return WorkerItem.model_validate(row)

    def forecast(self) -> Forecast | None:
        jobs = {name: self.job(name) for name in self.queues}
        rows = [worker_row(self._item(crew), NOON) for crew in self.crews if OURS in crew.jobs]
        return forecast(jobs[OURS], len(self.queues[OURS]), rows, jobs, NOON)


def judged(shop: Shop) -> Iterator[bool]:
    """Yield for tasks of our queue whether what is said of them now is near what comes."""
    told = shop.forecast()
    assert told is not None
    waiting = [key for key, _ in shop.queues[OURS]]
    begun = shop.now
    places = sorted({*range(min(8, len(waiting))), *range(0, len(waiting), max(1, len(waiting) // 40))})
    said = {waiting[place]: told.seconds(place + 1) for place in places}
    while any(key not in shop.started for key in said):
        shop.run_until(shop.now + 5)
    for key, seconds in said.items():
        real = shop.started[key] - begun
        assert seconds is not None
        yield abs(seconds - real) <= CLOSE or real / 2 <= seconds <= real * 2


def steady(seed: int, draw: Draw, *, slots: int = 4, workers: int = 3, overhead: float = 0.0) -> Shop:
    """A shop that has had its share of work for a while, and none left."""
    shop = Shop(seed, {OURS: draw, THEIRS: draw}, overhead=overhead)
    shop.crews = [Crew(f"w{number}", slots) for number in range(workers)]
    shop.submit(OURS, RUNS)
    shop.run_until(seed)
    while shop.queues[OURS] or any(crew.runs for crew in shop.crews):
        shop.run_until(shop.now + 10)
    return shop


def burst(seed: int, draw: Draw) -> Shop:
    """A queue that was empty for minutes is full."""
    shop = steady(seed, draw)
    shop.run_until(shop.now + 200)
    shop.submit(OURS, 300)
    shop.run_until(shop.now + seed % 7)
    return shop


def drain(seed: int, draw: Draw) -> Shop:
    """A queue that has been full for minutes."""
    shop = steady(seed, draw)
    shop.submit(OURS, 700)
    shop.run_until(shop.now + 100 + seed)
    return shop


def deaths(seed: int, draw: Draw) -> Shop:
    """Two of three workers have died a moment ago; what they held will come back."""
    shop = drain(seed, draw)
    for crew in shop.crews[:2]:
        shop.kill(crew)
    shop.run_until(shop.now + 6 + seed % 80)
    return shop


def births(seed: int, draw: Draw) -> Shop:
    """Workers have come to help."""
    shop = drain(seed, draw)
    shop.crews += [Crew(f"new{number}", 4, came=shop.now) for number in range(3)]
    shop.run_until(shop.now + 2 + seed % 30)
    return shop


def rivals(seed: int, draw: Draw) -> Shop:
    """Another queue has come to share the workers."""
    shop = steady(seed, draw)
    for crew in shop.crews:
        crew.jobs = (OURS, THEIRS)
    shop.submit(THEIRS, RUNS)
    shop.run_until(shop.now + 60)
    while shop.queues[THEIRS]:
        shop.run_until(shop.now + 10)
    shop.submit(OURS, 120)
    shop.submit(THEIRS, 120)
    shop.run_until(shop.now + 3 + seed % 20)
    return shop


@pytest.mark.parametrize("draw", [even, memoryless, mixed])
@pytest.mark.parametrize("scene", [burst, drain, deaths, births, rivals])
def test_4_nine_of_ten_tasks_start_within_a_factor_of_two_of_what_is_said(
    scene: Callable[[int, Draw], Shop], draw: Draw
) -> None:
    near = [fits for seed in range(12) for fits in judged(scene(seed, draw))]

    assert sum(near) / len(near) >= 0.9, f"{sum(near)} of {len(near)}"


def test_4_the_pace_tells_what_workers_of_short_tasks_really_do() -> None:
    """Around each run something takes ten times as long as the run, and nothing but the pace shows it."""
    near = []
    for seed in range(6):
        shop = steady(seed, tiny, overhead=0.2)
        shop.submit(OURS, 6000)
        shop.run_until(shop.now + 31 + seed * 5)
        near += judged(shop)

    assert sum(near) / len(near) >= 0.9, f"{sum(near)} of {len(near)}"


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("draw", [even, memoryless, tiny])
def test_4_nothing_is_said_to_start_sooner_than_the_workers_can_do(seed: int, draw: Draw) -> None:
    shop = deaths(seed, draw)
    told = shop.forecast()

    assert told is not None
    assert told.slots == 4
    for place in (1, 5, 50, 500):
        # What one has to wait for at least, but for what is drawn by chance.
        work = max(0, place - 4) * (told.run.mean or 0.0)
        assert (told.seconds(place) or 0.0) >= 0.8 * work / 4


def test_4_of_a_queue_that_nobody_serves_nothing_is_said() -> None:
    shop = drain(1, even)
    for crew in shop.crews:
        shop.kill(crew)
    shop.run_until(shop.now + 8)

    assert shop.forecast() is None


def test_4_before_any_run_has_told_how_long_it_takes_only_free_slots_are_known() -> None:
    shop = Shop(1, {OURS: even})
    shop.crews = [Crew("w", 2)]

    told = shop.forecast()
    assert told is not None
    assert [told.seconds(place) for place in (1, 2, 3)] == [0.0, 0.0, None]


def test_4_a_paused_queue_says_nothing() -> None:
    shop = drain(1, even)
    item = shop.job(OURS).model_copy(update={"paused": True})
    rows = [worker_row(shop._item(crew), NOON + timedelta()) for crew in shop.crews]

    assert forecast(item, 5, rows, {}, NOON) is None


def held_up(before: Sequence[float]) -> Shop:
    """A shop whose two slots are held by runs of another job, for 30 s so far; others of that job took so long."""
    shop = Shop(1, {OURS: lambda _: 1.0, THEIRS: lambda _: 60.0})
    shop.crews = [Crew("w", 2, jobs=(OURS, THEIRS))]
    shop.submit(OURS, 40)
    shop.run_until(30)
    shop.ended[THEIRS] = [(shop.now, seconds) for seconds in before]
    shop.submit(THEIRS, 2)
    shop.run_until(60)
    shop.submit(OURS, 2)
    return shop


@pytest.mark.parametrize("before", [(), (0.01,) * 20])
def test_4_behind_runs_of_which_nothing_is_known_but_their_age_no_start_is_said_to_be_near(
    before: Sequence[float],
) -> None:
    """The others have never ended, or have failed at once: those in the slots may take as long again."""
    told = held_up(before).forecast()

    assert told is not None
    first = told.seconds(1)
    assert first is not None
    assert 15 < first < 60
