"""The screen's room is for content: the rules that columns keep to at four sizes, in dark, light and monochrome."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.tui.happenings import schedules_tick
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import ROTATE, at, storied_task, task, uuid
from tests.tui.scenes import LOOKS
from tests.tui.stage import Stage, staged
from treadle_tui.widgets.grid import Grid, QueueGrid, TaskGrid

SIZES = [(60, 20), (80, 24), (120, 36), (200, 60)]
EMPTY = {"", "-"}

sized = pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
sized_and_looked = pytest.mark.parametrize(
    ("size", "look"),
    [
        pytest.param(size, look, marks=[] if n % len(LOOKS) == m else [pytest.mark.crossed])
        for n, size in enumerate(SIZES)
        for m, look in enumerate(LOOKS)
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
"""At each size with one of the looks in turn; with the others in `nox -s crossed`."""


@asynccontextmanager
async def shown(
    server: MockServer, clock: FrozenClock, size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    if look == "monochrome":
        monkeypatch.setenv("NO_COLOR", "1")
    async with staged(server, clock, size=size) as stage:
        stage.app.theme = LOOKS[look]
        await stage.press("2")
        yield stage


def drawn(stage: Stage, kind: type[Grid]) -> list[str]:
    """The lines of a pane without its frame and gutter: the titles, then the rows."""
    grid = stage.app.screen.query_one(kind)
    region = grid.content_region
    lines = [line[region.x : region.right] for line in stage.lines()[region.y : region.bottom]]
    gutter = len(lines[0]) - len(lines[0].lstrip())
    return [lines[0][gutter:], *(line[gutter:] for line in lines[1:] if line.strip())]


def table(lines: list[str]) -> dict[str, list[str]]:
    """What stands in each column: blanks that go through all lines part them."""
    titles = re.finditer(r"\S+(?: \S+)*", lines[0])
    blank = [all(len(line) <= cell or line[cell] == " " for line in lines) for cell in range(len(lines[0]) + 1)]
    columns = {}
    for title in titles:
        start, end = title.start(), title.end()
        while start > 0 and not (blank[start - 1] and (start < 2 or blank[start - 2])):
            start -= 1
        while end < len(blank) and not (blank[end] and (end + 1 >= len(blank) or blank[end + 1])):
            end += 1
        columns[title[0]] = [line[start:end].strip() for line in lines[1:]]
    return columns


async def test_7_room_that_the_payload_leaves_tells_more_of_each_task_and_a_long_payload_takes_it_back(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = next(iter(server.tasks.values()))
    first.update(priority=7, submitter="ann", unique_key="order-17")
    async with shown(server, clock, (200, 60), "dark", monkeypatch) as stage:
        columns = table(drawn(stage, TaskGrid))
        assert {"BY", "PRIO", "KEY"} <= columns.keys()
        assert "order-17" in columns["KEY"]

        first["payload"] = {"text": "x" * 300}
        server.push_topic("tasks")
        await stage.settle()
        columns = table(drawn(stage, TaskGrid))
        assert not {"BY", "PRIO", "KEY"} & columns.keys()
        assert any(len(cell) > 80 for cell in columns["PAYLOAD"])

    async with shown(server, clock, (120, 36), "dark", monkeypatch) as stage:
        assert "KEY" not in table(drawn(stage, TaskGrid))


@pytest.mark.parametrize(("key", "title", "told"), [("3", "SERVES", "Rotate"), ("5", "PAYLOAD", "{")])
async def test_7_a_wide_screen_tells_what_workers_serve_and_schedules_submit(
    server: MockServer, clock: FrozenClock, key: str, title: str, told: str
) -> None:
    schedules_tick(server)
    for schedule in server.schedules.values():
        schedule["payload"] = {"angle": 90}
    for worker in server.workers.values():
        worker["jobs"] = [ROTATE]
    async with staged(server, clock, size=(200, 60)) as stage:
        await stage.press(key)
        assert title in stage.text()
        assert told in table(drawn(stage, Grid))[title][0]


@sized_and_looked
async def test_7_the_payload_has_room_and_no_column_of_tasks_is_empty(
    server: MockServer, clock: FrozenClock, size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storied_task(server)
    async with shown(server, clock, size, look, monkeypatch) as stage:
        for page in range(3):
            columns = table(drawn(stage, TaskGrid))

            assert {"ID", "STATE", "AGE", "PAYLOAD"} <= columns.keys()
            assert all(len(cell) >= 16 or not cell.endswith("…") for cell in columns["PAYLOAD"]), columns["PAYLOAD"]
            # A column in which something stood stays, so only the first page is without any that is empty.
            assert page or not [title for title, cells in columns.items() if EMPTY.issuperset(cells)]
            await stage.press("pagedown")


@sized_and_looked
async def test_7_where_something_is_cut_off_the_line_is_full_and_titles_stand_apart(
    server: MockServer, clock: FrozenClock, size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with shown(server, clock, size, look, monkeypatch) as stage:
        for kind in (QueueGrid, TaskGrid):
            lines = drawn(stage, kind)
            known = {column.title for column in stage.app.screen.query_one(kind).pane.columns}  # type: ignore[attr-defined]

            assert set(re.split(r" {2,}", lines[0].strip())) <= known
            if any("…" in line for line in lines):
                room = stage.app.screen.query_one(kind).size.width
                assert max(len(line.rstrip()) for line in lines) >= room - 8, lines


@sized_and_looked
async def test_7_ended_tasks_tell_when_by_whom_and_how_long(
    server: MockServer, clock: FrozenClock, size: tuple[int, int], look: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = next(iter(server.workers))
    for number in range(5):
        row = task(
            5000 + number, ROTATE, status="completed", age=900, run_id=0, started_at=at(620), completed_at=at(600),
            worker_id=worker,
        )  # fmt: skip
        server.tasks[row["id"]] = row

    async with shown(server, clock, size, look, monkeypatch) as stage:
        await stage.press("slash", *"status", "colon", *"completed", "enter")
        columns = table(drawn(stage, TaskGrid))

        assert not columns.keys() & {"POS", "ETA", "AGE"}
        assert columns["ENDED"] == ["10m00"] * 5
        assert columns["RUN"] == ["20s"] * 5
        if size[0] >= 80:
            assert columns["WORKER"] == ["web-0"] * 5


@sized
async def test_7_slots_that_queues_share_are_told_once_and_bars_stand_apart(
    server: MockServer, clock: FrozenClock, size: tuple[int, int]
) -> None:
    async with staged(server, clock, size=size) as stage:
        told = drawn(stage, QueueGrid)[1:]
        assert not [line for line in [*told, *drawn(stage, TaskGrid)] if "█" in line or "░" in line]
        if size[0] < 80:
            return
        slots = [found[1] for line in told if (found := re.search(r"\d+/(\+?\d+|″)", line)) is not None]
        total, *queues = slots

        # Delete and Rotate have the same eight workers, and Neighbours two of them.
        assert queues.count("″") == 2
        assert sum(int(one) for one in queues if one != "″") <= int(total)
        await stage.press("1", "s")
        again = [found[1] for line in drawn(stage, QueueGrid)[1:] if (found := re.search(r"\d+/(\+?\d+|″)", line))]
        assert sum(int(one) for one in again[1:] if one != "″") == sum(int(one) for one in queues if one != "″")


async def test_7_a_column_grows_when_something_longer_comes_into_sight(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2")
        before = drawn(stage, TaskGrid)[0].index("ID")
        await stage.press("slash", *"status", "colon", *"pending", "enter")
        await stage.press(*["pagedown"] * 12)
        columns = table(drawn(stage, TaskGrid))

        assert before == 0, "nothing that runs has a place in the queue"
        assert columns["POS"][0].isdigit()
        assert len(columns["POS"][0]) == 3
        assert all(len(cell) == 8 for cell in columns["ID"])


@pytest.mark.parametrize(("jobs", "says"), [(3, ""), (30, "rows 1-12 of 31"), (11, "")])
async def test_7_the_pane_of_queues_has_room_for_all_of_them_or_says_which_are_seen(
    server: MockServer, clock: FrozenClock, jobs: int, says: str
) -> None:
    some = next(iter(server.jobs.values()))
    names = [f"lab:tasks:job{n:02}" for n in range(jobs)]
    server.jobs = {
        uuid(n): {**some, "id": uuid(n), "full_name": name, "room_id": "lab", "category": "tasks", "name": f"job{n:02}"}
        for n, name in enumerate(names)
    }
    async with staged(server, clock) as stage:
        await stage.press("1", "g")

        shown = stage.text()
        assert [name for name in names if name[-5:] in shown] == names[: 11 if says else jobs]
        assert says in shown
        assert (" of 31" in shown) is bool(says)
