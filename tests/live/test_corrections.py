"""Windows that are corrected by what commits changed: they show what the database would, whatever was done."""

import asyncio
import json
import random
from datetime import timedelta
from itertools import product
from time import thread_time
from typing import Any

import pytest

from tests.conftest import FakeClock
from tests.engine.conftest import ADMIN, Shop
from treadle.wire.frames import Window
from treadle.wire.status import TERMINAL, Status
from treadle_server.domain.tasks import Task
from treadle_server.engine.commands import Edit, PromoteDue
from treadle_server.engine.commands.prune import PruneTasks
from treadle_server.engine.engine import Engine
from treadle_server.engine.hub import Batch, Change
from treadle_server.errors import TreadleError
from treadle_server.live import corrections, task_windows
from treadle_server.live.changes import PATIENCE, ChangeCollector, Round
from treadle_server.live.corrections import Corrections
from treadle_server.live.task_windows import FilterTotals, TasksView
from treadle_server.live.views import ViewRows

pytestmark = pytest.mark.anyio

OTHER = "@global:tasks:other"
FILTERS: tuple[dict[str, Any], ...] = (
    {},
    {"job": OTHER},
    {"status": ["pending", "running"]},
    {"status": ["claimed", "scheduled", "failed"], "room": "@global"},
    {"tag": "color=red"},
    {"target": "gpu"},
)
ROUNDS = 6
ANCHORS = (None, "first", "after", "before")


class Mill:
    """Does something at random to the tasks of two queues."""

    def __init__(self, shop: Shop, clock: FakeClock, draw: random.Random) -> None:
        self.shop = shop
        self.clock = clock
        self.draw = draw
        self.ids: list[Any] = []
        self.worker: Any = None

    async def prepare(self) -> None:
        await self.shop.register("other")
        self.worker = await self.shop.worker(self.shop.job, OTHER, concurrency=6)
        for _ in range(20):
            await self.submit()
        for _ in range(20):
            await self.step()

    async def step(self) -> None:
        """Do one thing; one that can't be done is left."""
        does = [self.submit, self.claim, self.claim, self.report, self.report, self.report, self.steer, self.edit]
        try:
            await self.draw.choice([*does, self.pass_time, self.prune])()
        except TreadleError:
            return

    async def submit(self) -> None:
        options: dict[str, Any] = {"priority": self.draw.choice([0, 0, 0, 3])}
        if self.draw.random() < 0.3:
            options["max_retries"] = 2
        details: dict[str, Any] = {"target": "gpu"} if self.draw.random() < 0.3 else {}
        if self.draw.random() < 0.2:
            details["delay"] = 5.0
        if self.draw.random() < 0.3:
            details["tags"] = json.dumps({"color": self.draw.choice(["red", "blue"])})
        job = self.draw.choice([None, OTHER])
        new = await self.shop.submit(self.draw.randrange(1, 4), job=job, options=options, **details)
        self.ids += [task.id for task in new]

    async def task(self, *statuses: Status) -> Task:
        self.draw.shuffle(self.ids)
        for task_id in self.ids[:60]:
            task = await self.shop.get(task_id)
            if not statuses or task.status in statuses:
                return task
        return task

    async def claim(self) -> None:
        await self.shop.claim(self.worker, most=self.draw.randrange(1, 4))

    async def report(self) -> None:
        task = await self.task(Status.CLAIMED, Status.RUNNING)
        if task.status is Status.CLAIMED:
            await self.shop.report(task, "started")
            return
        kind = self.draw.choice(["completed", "completed", "failed", "progress", "progress"])
        await self.shop.report(
            task, kind, **{"failed": {"error": "no"}, "progress": {"progress": str(self.draw.random())}}.get(kind, {})
        )

    async def steer(self) -> None:
        await self.shop.steer(await self.task(), self.draw.choice(["cancel", "pause", "resume", "rerun"]))

    async def edit(self) -> None:
        task = await self.task(Status.PENDING, Status.SCHEDULED)
        changes = self.draw.choice([{"priority": self.draw.randrange(-1, 4)}, {"tags": '{"color":"red"}'}])
        await self.shop.engine.run(Edit(principal=ADMIN, task_id=task.id, changes=changes))

    async def pass_time(self) -> None:
        self.clock.advance(self.draw.choice([0.1, 3.0, 6.0]))
        await self.shop.engine.run(PromoteDue())

    async def prune(self) -> None:
        task = await self.task(Status.COMPLETED, Status.CANCELLED)
        now = self.clock.now() + timedelta(seconds=1)
        await self.shop.engine.run(PruneTasks(seqs=[task.seq], cutoffs=dict.fromkeys(TERMINAL, now)))
        self.ids.remove(task.id)


def plain(rows: ViewRows, *, counted: bool) -> Any:
    """Return what is shown; without the numbers, which are a second old, unless they were `counted` just now."""
    shown = [json.loads(row) for row in rows.by_key.values()]
    if counted:
        return shown, rows.total, rows.total_is_capped, rows.ahead
    return [row | {"queue_position": None} for row in shown]


async def looked_at(engine: Engine, view: TasksView) -> ViewRows:
    async with engine.store.read() as connection:
        return await view.read(connection)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=pytest.mark.crossed) for n in (2, 3, 4, 5))])
async def test_a_corrected_window_is_what_the_database_would_show(
    shop: Shop, clock: FakeClock, monkeypatch: pytest.MonkeyPatch, seed: int
):
    """G7; TUI.md 7: whatever was done, in any order, with any filter, from any place."""
    monkeypatch.setattr(task_windows, "POSITION_SECONDS", 0.0)
    monkeypatch.setattr(task_windows, "LEAST_RESERVE", 3)
    draw = random.Random(seed)
    mill = Mill(shop, clock, draw)
    await mill.prepare()
    engine, changes, totals = shop.engine, ChangeCollector(), FilterTotals(shop.engine.hub)
    engine.hub.listen(changes.note)
    views: list[tuple[Window, TasksView]] = []
    engine.hub.listen(lambda batch: [view.outdate() for _, view in views if view.concerns(batch)] and None)
    for order, meant, anchor in product(("position", "newest", "oldest", "updated"), FILTERS, ANCHORS):
        if draw.random() < (0.5 if anchor == "before" else 0.85):
            continue
        hung = {} if anchor is None else {anchor: draw.choice(mill.ids)}
        wanted = Window.model_validate({"order": order, "filter": meant, "limit": draw.choice([2, 4, 8, 30]), **hung})
        views.append((wanted, TasksView(wanted, totals)))
    for number, task_id in enumerate(draw.sample(mill.ids, 6)):
        alone = {"id": task_id} if number else {"id": task_id, "status": ["pending", "completed"]}
        wanted = Window.model_validate({"filter": alone, "limit": draw.choice([1, 4])})
        views.append((wanted, TasksView(wanted, totals)))
    fresh = {id(view): TasksView(wanted, totals) for wanted, view in views}
    for _, view in views:
        await looked_at(engine, view)
        await looked_at(engine, fresh[id(view)])
    corrected = 0

    for _ in range(ROUNDS):
        for _ in range(draw.randrange(1, 10)):
            await mill.step()
        changed = changes.take()
        for wanted, view in views:
            other = fresh[id(view)]
            other.outdate()
            expected = await looked_at(engine, other)
            rows = view.correct(changed)
            if rows is not None:
                corrected += 1
                assert plain(rows, counted=False) == plain(expected, counted=False), wanted
            assert plain(await looked_at(engine, view), counted=True) == plain(expected, counted=True), wanted

    assert corrected > 0.3 * ROUNDS * len(views)


async def told(shop: Shop, engine: Engine) -> tuple[Task, Batch]:
    """Return a new task, and a batch that tells of it."""
    [task] = await shop.submit()
    return task, Batch(engine.clock.now(), tasks=[Change(task, None)])


async def test_a_task_that_the_writer_has_moved_on_is_shown_when_that_is_committed_g7(shop: Shop):
    """No event is sent before its commit: the writer works on the very object that it has told of."""
    task, batch = await told(shop, shop.engine)
    changes = ChangeCollector()
    changes.note(batch)
    task.version += 1
    task.status = Status.CLAIMED

    assert not changes.take().tasks
    assert changes
    changes.note(batch)

    assert changes.take().tasks[task.id].status is Status.CLAIMED
    assert not changes


async def test_a_round_that_is_applied_later_has_each_task_where_it_stands_then_g7(shop: Shop):
    """A window that was being read goes on to it after the writer has moved tasks on, in an order that holds again."""
    tasks = await shop.submit(3)
    changes = ChangeCollector()
    changes.note(Batch(shop.engine.clock.now(), tasks=[Change(task, None) for task in tasks]))
    changed = changes.take()
    changed.segment("position", 1)
    tasks[0].version += 1
    tasks[0].status, tasks[0].due_at, tasks[1].priority = Status.SCHEDULED, None, -1

    found, rank = changed.copy().segment("position", 1)

    assert found == [tasks[2], tasks[1]]
    assert rank(tasks[2]) < rank(tasks[1])


async def test_a_row_that_was_never_shown_is_passed_over_while_the_writer_is_at_it_g7(shop: Shop):
    engine, changes = shop.engine, ChangeCollector()
    engine.hub.listen(changes.note)
    wanted = Window.model_validate({"order": "oldest", "limit": 2, "filter": {"status": ["pending"]}})
    view = TasksView(wanted, FilterTotals(engine.hub))
    first, *_ = await shop.submit(4)
    await looked_at(engine, view)
    known = list(view._known or ())
    changes.take()
    await shop.steer(first, "cancel")
    known[2].task.version += 1

    rows = view.correct(changes.take())

    assert rows is not None
    assert list(rows.by_key) == [known[1].task.id, known[3].task.id]
    assert view.again_in is not None
    # No commit has told of it.
    rows = await looked_at(engine, view)
    assert list(rows.by_key) == [known[1].task.id, known[2].task.id]


async def test_what_changes_much_at_once_is_read_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corrections, "MOST", 1)
    lost: list[bool] = []
    turns = Corrections({None}, lambda _window, _changed: None, lambda: lost.append(True))
    for _ in range(2):
        turns.on_commit((await told(shop, shop.engine))[1])

    assert lost == [True]
    assert await turns.turn() > 1


async def test_everything_is_read_anew_when_the_commit_of_a_task_does_not_come(shop: Shop):
    task, batch = await told(shop, shop.engine)
    lost: list[bool] = []
    turns = Corrections({None}, lambda _window, _changed: None, lambda: lost.append(True))
    turns.on_commit(batch)
    task.version += 1

    for _ in range(PATIENCE):
        turns._due_at = 0.0
        await turns.turn()
    assert not lost
    turns._due_at = 0.0
    await turns.turn()

    assert lost == [True]
    assert await turns.turn() > 1


async def test_rounds_are_a_tenth_of_a_second_apart_and_less_than_a_quarter_whatever_they_take(shop: Shop):
    task, batch = await told(shop, shop.engine)
    shown: list[Round] = []

    def slowly(_window: None, changed: Round) -> None:
        shown.append(changed)
        ends = thread_time() + 0.05
        while thread_time() < ends:
            pass

    turns = Corrections({None}, slowly, lambda: None)
    turns.on_commit(batch)
    await turns.turn()
    turns.on_commit(batch)

    wait = await turns.turn()

    assert [list(one.tasks) for one in shown] == [[task.id]]
    assert 0.1 < wait <= 0.2


async def test_a_long_round_leaves_others_their_turn_and_goes_on_to_what_they_made_of_it_g7(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    """N3: 10,000 rows that change at once do not keep the loop busy until all windows show them."""
    monkeypatch.setattr(corrections, "HOLD_SECONDS", 0.0)
    tasks = await shop.submit(3)
    totals = FilterTotals(shop.engine.hub)
    views = {TasksView(Window(order="newest"), totals): None, TasksView(Window(order="position"), totals): None}
    for view in views:
        await looked_at(shop.engine, view)
    shown: list[list[str]] = []

    def correct(view: TasksView, changed: Round) -> None:
        rows = view.correct(changed)
        assert rows is not None
        shown.append(list(rows.by_key))
        if len(shown) == 1:
            asyncio.get_running_loop().call_soon(write)

    def write() -> None:
        tasks[0].version += 1
        tasks[0].status, tasks[0].due_at = Status.SCHEDULED, None

    turns = Corrections(views.keys(), correct, lambda: None)
    for task in tasks:
        task.version += 1
    turns.on_commit(Batch(shop.engine.clock.now(), tasks=[Change(task, None) for task in tasks]))

    await turns.turn()

    # What was on its way to its next commit is told by that.
    first, second, third = (task.id for task in tasks)
    assert shown == [[third, second, first], [second, third]]


async def test_a_window_with_a_text_or_an_offset_is_read_anew(shop: Shop):
    """What only the database can decide."""
    totals = FilterTotals(shop.engine.hub)
    _, batch = await told(shop, shop.engine)

    for wanted in ({"filter": {"text": "x"}}, {"offset": 3}):
        view = TasksView(Window.model_validate(wanted), totals)
        assert (view.is_corrected, view.concerns(batch)) == (False, True)
    assert not TasksView(Window(), totals).concerns(batch)


async def test_a_window_of_one_task_is_spared_what_becomes_of_others_but_for_its_place(shop: Shop):
    """Of each thousand who follow a task every one looked through all that a drain changes, and counted it."""
    await shop.register("other")
    totals, changes = FilterTotals(shop.engine.hub), ChangeCollector()
    shop.engine.hub.listen(changes.note)
    first, second = await shop.submit(2)
    view = TasksView(Window.model_validate({"filter": {"id": second.id}, "limit": 1}), totals)
    assert (await looked_at(shop.engine, view)).total == 1
    changes.take()

    await shop.submit(job=OTHER)
    assert (view.correct(changes.take()), view.again_in) == (None, None)
    await shop.steer(first, "cancel")
    assert view.correct(changes.take()) is None
    assert view.again_in is not None, "it stands further ahead now"
    await shop.steer(second, "pause")
    rows = view.correct(changes.take())
    assert rows is not None
    assert [json.loads(row)["status"] for row in rows.by_key.values()] == ["paused"]
    await looked_at(shop.engine, view)
    view.again_in = None
    await shop.submit()
    assert (view.correct(changes.take()), view.again_in) == (None, None), "it stands in no line any more"
    assert not totals._known


async def test_windows_with_the_same_filter_are_counted_once_a_second_together(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
):
    totals, counted = FilterTotals(shop.engine.hub), []
    real = task_windows.filters.total

    async def counting(connection: Any, wanted: Any) -> Any:
        counted.append(wanted)
        return await real(connection, wanted)

    monkeypatch.setattr(task_windows.filters, "total", counting)
    await shop.submit(3)
    first = await looked_at(shop.engine, TasksView(Window(limit=1), totals))
    same = TasksView(Window(limit=2), totals)
    second = await looked_at(shop.engine, same)
    is_known = same.again_in is None
    await shop.submit()
    late = TasksView(Window(limit=2, order="oldest"), totals)
    await looked_at(shop.engine, late)

    assert (first.total, second.total, len(counted), is_known) == (3, 3, 1, True)
    assert late.again_in is not None
