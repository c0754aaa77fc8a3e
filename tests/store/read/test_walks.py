"""Lists of what no index knows: they look through so many tasks, say so, and go on where they ended."""

from datetime import timedelta
from typing import Any

import pytest

from tests.store.read.conftest import START, WORKER, StoredTasks, random_rows, task_row
from tests.store.read.test_windows import KEYS, everything
from treadle.wire.filters import TaskFilter
from treadle.wire.frames import Window
from treadle.wire.status import LEASED, Status
from treadle_server.store.arrivals import first_since
from treadle_server.store.read import few, filters, walks, windows
from treadle_server.store.read.tasks import page
from treadle_server.store.read.windows import ahead_of, anchor, partial_total, window

FEWEST: list[tuple[dict[str, Any], Any]] = [
    ({"text": "fair"}, lambda task: "fair" in task.job_name),
    ({"not_room": ["lab"]}, lambda task: task.room != "lab"),
    ({"worker": WORKER}, lambda task: task.worker_id == WORKER),
    ({"least_tries": 1, "room": "den"}, lambda task: task.run_id >= 0 and task.room == "den"),
    ({"status": ["completed"], "job": "lab:tasks:add"}, lambda t: t.status == "completed" and t.job_num == 1),
    (
        {"status": ["pending", "failed"], "text": "s:add"},
        lambda t: t.job_num == 1 and t.status in {"pending", "failed"},
    ),
    ({"not_tag": ["k"], "least_tries": 1}, lambda task: task.run_id >= 0),
]


@pytest.fixture
def looked_through(monkeypatch: pytest.MonkeyPatch) -> int:
    """How many tasks a list looks through; no status has few."""
    monkeypatch.setattr(walks, "LOOKED_THROUGH", 20)
    monkeypatch.setattr(few, "FEW", 0)
    return 20


async def test_a_page_ends_where_enough_was_looked_through_and_its_cursor_goes_on(
    stored: StoredTasks, looked_through: int
):
    await stored.put(random_rows(130))
    found = await everything(stored)

    async with stored.store.read() as connection:
        for wanted, means in FEWEST:
            seen, cursor, partial, pages = [], None, 0, 0
            while cursor is not None or not pages:
                part = await page(connection, TaskFilter(**wanted), limit=8, cursor=cursor)
                seen += [one.task.seq for one in part.items]
                pages, partial, cursor = pages + 1, partial + part.is_partial, part.next_cursor
                assert len(part.items) == 8 or part.is_partial or cursor is None, wanted
                # By job and status alone the kept counts know.
                assert part.total_is_capped is (wanted.keys() != {"status", "job"}), wanted
            assert seen == [task.seq for task in reversed(found) if means(task)], wanted
            assert partial, wanted


@pytest.mark.parametrize("order", KEYS)
async def test_a_window_that_may_miss_tasks_says_so(stored: StoredTasks, looked_through: int, order: str):
    await stored.put(random_rows(130))
    ordered = sorted(await everything(stored), key=KEYS[order])
    missing = 0

    async with stored.store.read() as connection:
        for wanted, means in FEWEST:
            looked_at = Window(filter=TaskFilter(**wanted), order=order, limit=100)  # type: ignore[arg-type]
            found = await window(connection, looked_at)
            expected = [task.seq for task in ordered if means(task)]
            seqs = [task.seq for task in found]
            assert seqs == [seq for seq in expected if seq in set(seqs)], wanted
            assert found.is_partial or seqs == expected, wanted
            missing += len(expected) - len(seqs)
    assert missing


async def test_a_window_that_is_full_misses_nothing(stored: StoredTasks, looked_through: int):
    await stored.put(random_rows(130))
    found = await everything(stored)

    async with stored.store.read() as connection:
        for order in ("newest", "oldest", "position"):
            ordered = sorted(found, key=KEYS[order])
            for wanted, means in ({"not_room": ["den"]}, lambda task: task.room != "den"), ({}, lambda _: True):
                looked_at = Window(filter=TaskFilter(**wanted), order=order, limit=5)  # type: ignore[arg-type]
                seen = await window(connection, looked_at)
                assert [task.seq for task in seen] == [task.seq for task in ordered if means(task)][:5]
                assert not seen.is_partial


@pytest.mark.parametrize("order", ["newest", "oldest", "position"])
@pytest.mark.parametrize("status", ["pending", "completed"])
async def test_a_jump_by_what_the_kept_counts_count_shows_tasks_wherever_they_stand(
    stored: StoredTasks, looked_through: int, monkeypatch: pytest.MonkeyPatch, order: str, status: str
):
    """TUI.md 7: no list is empty under a count."""
    monkeypatch.setattr(windows, "FAR", 5)
    await stored.put(half_completed(200))
    ordered = [task for task in sorted(await everything(stored), key=KEYS[order]) if task.status == status]

    async with stored.store.read() as connection:
        for wanted in ({}, {"job": "lab:tasks:add"}):
            meant = TaskFilter(status=[Status(status)], **wanted)  # type: ignore[arg-type]
            for offset in range(5, 100, 9):
                found = await window(connection, Window(filter=meant, order=order, offset=offset, limit=8))  # type: ignore[arg-type]
                assert [one.seq for one in found] == [one.seq for one in ordered[offset : offset + 8]], offset
                assert not found.is_partial or offset + 8 > len(ordered)


@pytest.mark.parametrize("order", ["newest", "oldest"])
async def test_a_list_is_as_long_as_was_found_where_a_jump_found_none(
    stored: StoredTasks, looked_through: int, monkeypatch: pytest.MonkeyPatch, order: str
):
    """TUI.md 7: no list is empty under a count."""
    monkeypatch.setattr(windows, "FAR", 5)
    monkeypatch.setattr(walks, "LOOKED_FAR", 30)
    await stored.put(half_completed(200))
    meant = TaskFilter(status=[Status.PENDING])

    async with stored.store.read() as connection:
        beyond = await window(connection, Window(filter=meant, order=order, offset=40, limit=8))  # type: ignore[arg-type]
        assert (list(beyond), beyond.is_partial, beyond.reached) == ([], True, 15)
        total = partial_total(Window(filter=meant), 100, 40, beyond.reached)
        last = await window(connection, Window(filter=meant, order=order, offset=total - 8, limit=8))  # type: ignore[arg-type]
        assert (len(last), last.reached) == (8, None)


def half_completed(n: int) -> list[dict[str, Any]]:
    ended = {"status": "completed", "run_id": 0, "worker_id": WORKER, "completed_at": START}
    return [task_row(seq, **(ended if seq % 2 else {})) for seq in range(1, n + 1)]


async def test_what_stands_before_a_window_is_capped_where_enough_was_looked_through(
    stored: StoredTasks, looked_through: int
):
    await stored.put([task_row(seq, room="den" if seq % 7 else "lab") for seq in range(1, 101)])
    ordered = [task for task in sorted(await everything(stored), key=KEYS["newest"]) if task.room == "lab"]

    async with stored.store.read() as connection:
        for first, capped in ((1, False), (-1, True)):
            looked_at = Window(filter=TaskFilter(not_room=["den"]), first=ordered[first].id)
            at = await anchor(connection, looked_at)
            before, is_capped = await ahead_of(connection, looked_at, at, ordered[first:], 14)
            assert is_capped is capped
            assert before <= len(ordered) + first if first < 0 else before == first


async def test_tasks_in_statuses_that_few_have_are_all_found(stored: StoredTasks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(walks, "LOOKED_THROUGH", 20)
    await stored.put(random_rows(400))
    found = await everything(stored)

    async with stored.store.read() as connection:
        for status in set(Status) - {Status.COMPLETED}:
            for wanted in ({}, {"job": "lab:tasks:add"}, {"text": "fair"}):
                meant = TaskFilter(status=[status], **wanted)
                part = await page(connection, meant, limit=500)
                expected = [
                    task.seq
                    for task in reversed(found)
                    if task.status == status
                    and ("job" not in wanted or task.job_num == 1)
                    and ("text" not in wanted or task.job_num == 2)
                ]
                assert [one.task.seq for one in part.items] == expected, meant
                assert (part.total, part.total_is_capped, part.is_partial) == (len(expected), False, False)
                by_place = await window(connection, Window(filter=meant, order="position", limit=500))
                assert sorted(task.seq for task in by_place) == sorted(expected) or status == Status.PENDING


@pytest.mark.parametrize("field", ["created", "started", "ended"])
async def test_times_long_ago_are_found_without_looking_through_what_came_since(
    stored: StoredTasks, looked_through: int, field: str
):
    def at(seq: int) -> Any:
        return START + timedelta(hours=seq)

    await stored.put(
        [
            task_row(n, status="completed", run_id=0, worker_id=WORKER,
                     created_at=at(n), started_at=at(n), completed_at=at(n))
            for n in range(1, 201)
        ]
    )  # fmt: skip

    async with stored.store.read() as connection:
        part = await page(connection, TaskFilter(**{f"{field}_until": at(9)}), limit=50)
        since = await page(connection, TaskFilter(created_from=at(195)), limit=50)
        gone = await page(connection, TaskFilter(created_from=at(500)), limit=50)

    assert [one.task.seq for one in part.items] == list(range(8, 0, -1))
    assert (part.total, part.total_is_capped, part.is_partial) == (8, False, False)
    assert [one.task.seq for one in since.items] == list(range(200, 194, -1))
    assert not since.is_partial
    assert (gone.items, gone.is_partial) == ([], False)


async def test_what_came_in_since_an_instant_is_found_by_halves(stored: StoredTasks):
    await stored.put([task_row(7 * n, created_at=START + timedelta(hours=n)) for n in range(1, 60)])

    async with stored.store.read() as connection:
        for hours in (-3, 1, 2, 30, 58, 59):
            first = await first_since(connection, START + timedelta(hours=hours))
            assert 7 * (max(hours, 1) - 1) < first <= 7 * max(hours, 1)
        assert await first_since(connection, START + timedelta(hours=60)) == 7 * 59 + 1


async def test_an_id_and_a_flow_of_many_tasks_are_looked_through_too(
    stored: StoredTasks, looked_through: int, monkeypatch: pytest.MonkeyPatch
):
    flow = "01990000-0000-7000-8000-000000000001"
    rows = [task_row(n, id=f"01990000-0000-7000-8000-{n:012x}", flow_id=flow) for n in range(1, 61)]
    await stored.put(rows)

    for rare, partial in ((1000, False), (5, True)):
        monkeypatch.setattr(few, "RARE", rare)
        async with stored.store.read() as connection:
            for wanted in ({"id": "0199"}, {"flow": flow}):
                where = await filters.conditions(connection, TaskFilter(**wanted))
                part = await page(connection, TaskFilter(**wanted), limit=50)
                assert where.is_narrow is not partial
                assert part.is_partial is partial
                assert len(part.items) == (looked_through if partial else 50)


async def test_what_is_leased_is_always_found(stored: StoredTasks, looked_through: int):
    await stored.put([task_row(1, status="running"), *(task_row(n) for n in range(2, 90))])

    async with stored.store.read() as connection:
        part = await page(connection, TaskFilter(status=sorted(LEASED), text="add"), limit=5)

    assert [one.task.seq for one in part.items] == [1]
    assert not part.is_partial


async def test_what_came_in_while_the_clock_was_set_back_is_found_too(stored: StoredTasks, looked_through: int):
    def row(n: int) -> dict[str, Any]:
        minutes = 10 * n - 50 if 140 <= n <= 145 else 10 * n
        return task_row(n, created_at=START + timedelta(minutes=minutes))

    await stored.put([row(n) for n in range(1, 201)])

    async with stored.store.read() as connection:
        early = await page(connection, TaskFilter(created_until=START + timedelta(minutes=1385)), limit=5)

    assert [one.task.seq for one in early.items] == [143, 142, 141, 140, 138]
