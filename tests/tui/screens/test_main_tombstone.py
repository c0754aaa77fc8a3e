"""What stands where a highlighted task was that left the list (behaviour 1)."""

from textual.widgets import Input

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import ROTATE
from tests.tui.stage import Stage, lose_highlighted, staged
from treadle_tui.core.views.pane import GONE
from treadle_tui.widgets.grid import TaskGrid


async def filtered(stage: Stage, text: str) -> None:
    await stage.press("slash")
    stage.app.screen.query_one("#filter", Input).value = text
    await stage.press("enter")


async def leave(stage: Stage, key: str, status: str, **more: object) -> None:
    """Let a task become another one, and be told of."""
    stage.server.tasks[key] |= {"status": status, **more}
    stage.server.push_topic("tasks")
    stage.server.push_topic("task")
    await stage.settle()


async def test_1_a_tombstone_tells_the_true_state_of_its_task_as_it_goes_on(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await filtered(stage, "status:pending")
        key = server.matching({"filter": {"job": ROTATE, "status": ["pending"]}})[0]["id"]
        await leave(stage, key, "running", queue_position=None)

        assert stage.highlighted().split()[2:6] == ["-", key[-8:], "●", "running"]
        assert "no longer here: enter shows it" in stage.highlighted()
        await leave(stage, key, "completed")
        assert "✓ completed" in stage.highlighted()
        assert "✗" not in stage.highlighted()


async def test_1_a_tombstone_is_no_row_of_the_count(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await filtered(stage, "status:pending")
        rows = server.matching({"filter": {"job": ROTATE, "status": ["pending"]}})
        assert f"of {len(rows)} " in stage.text()
        await leave(stage, rows[0]["id"], "running")

        footing = next(line for line in stage.lines() if "by position" in line)
        shown = stage.app.screen.query_one(TaskGrid).page
        assert f"rows 1-{shown - 1} of {len(rows) - 1} " in footing


async def test_1_a_tombstone_of_a_task_that_is_no_more_says_so(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        key = await lose_highlighted(stage, server)

        assert f"{key[-8:]}  {GONE} " in stage.highlighted()


async def test_1_the_tombstones_task_is_watched_until_one_moves_on(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await filtered(stage, "status:pending")
        key = server.matching({"filter": {"job": ROTATE, "status": ["pending"]}})[0]["id"]
        await leave(stage, key, "running")
        assert [fields.get("task_id") for fields in server.watched.values() if fields["topic"] == "task"] == [key]
        await stage.press("enter", "escape")
        await stage.pass_time(1)
        assert "● running" in stage.highlighted()
        await stage.press("down")

        assert [fields for fields in server.watched.values() if fields["topic"] == "task"] == []


async def test_7_a_task_that_is_no_more_is_shown_as_what_it_was(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", "enter")
        assert not stage.app.screen.has_class("-stale")
        server.tasks.clear()
        server.drop()
        server.open()
        await stage.settle()

        assert f"This task is {GONE}." in " ".join(stage.text().split())
        assert stage.app.screen.has_class("-stale")
        await stage.press("c")
        assert " this task is gone " in stage.text()
        await stage.press("escape")
        assert not stage.app.screen.has_class("-stale")


async def test_7_no_task_is_asked_for_where_the_queue_is_no_more(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        server.tasks.clear()
        server.push_topic("tasks")
        await stage.settle()
        assert f"treadle submit {ROTATE} " in stage.text()

        server.jobs = {key: job for key, job in server.jobs.items() if job["full_name"] != ROTATE}
        server.push_topic("jobs")
        await stage.settle()

        assert "This queue and its tasks are gone. Press 1 for the queues." in stage.text()
        assert "treadle submit" not in stage.text()


async def test_where_no_queue_has_a_task_one_of_them_is_named(server: MockServer, clock: FrozenClock) -> None:
    server.tasks.clear()
    async with staged(server, clock) as stage:
        await stage.press("1", "g")
        assert "all queues" in stage.highlighted()

        assert "No queue has any tasks. Submit one:" in stage.text()
        assert f"treadle submit {min(job['full_name'] for job in server.jobs.values())} " in stage.text()
