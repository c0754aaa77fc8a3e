"""The line that stands for every queue."""

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import BILLING, ROTATE
from tests.tui.stage import Stage, staged


def window_of(stage: Stage) -> dict[str, object]:
    """The filter of the window that was asked for last."""
    asked = [request["window"] for request in stage.asked("watch") if request["topic"] == "tasks"]
    found: dict[str, object] = asked[-1]["filter"]
    return found


def cursor_line(stage: Stage) -> str:
    """The queues' line in which the cursor is."""
    return next(line for line in stage.lines() if line.startswith("│ >"))


async def test_9_a_filter_that_it_was_started_with_means_every_queue(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, wanted="status:failed") as stage:
        assert window_of(stage) == {"status": ["failed"]}
        assert "2 Tasks  all queues" in stage.text()
        assert "all queues" in cursor_line(stage)


async def test_9_the_frame_names_the_queue_that_the_filter_does_and_not_the_highlighted_one(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock) as stage:
        await stage.press("slash", *f"job:{BILLING}", "enter")

        assert ROTATE in cursor_line(stage)
        assert f"2 Tasks  {BILLING}  0 of 48" in stage.text()


async def test_9_it_stands_first_in_every_order_and_adds_the_queues_up(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        assert window_of(stage)["job"] == ROTATE
        for _ in range(5):
            await stage.press("g")
            every = stage.app.model.every_queue()

            line = cursor_line(stage)
            assert line.split()[2:4] == ["all", "queues"]
            assert f"{every.pending:,}" in line
            assert window_of(stage).get("job") is None
            await stage.press("s")


async def test_9_no_queue_is_paused_by_it_and_it_is_no_queue_in_a_file(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("g", "p")

        assert stage.asked("job") == []
        assert "queues are paused and resumed one at a time" in stage.text()
        exported = stage.app._main.exported()
        assert len(exported.rows or ()) == len(stage.app.model.queue_rows())
        await stage.press("y")
        assert "*" not in stage.app.clipboard


async def test_9_one_queue_alone_has_no_such_line(server: MockServer, clock: FrozenClock) -> None:
    server.jobs = {name: job for name, job in server.jobs.items() if job["full_name"] == ROTATE}

    async with staged(server, clock) as stage:
        assert "all queues" not in stage.text()
