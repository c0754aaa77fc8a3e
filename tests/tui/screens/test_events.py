"""The events: each transition once, as it happens, and never without a word where some were missed."""

from typing import Any

from tests.tui.happenings import much_happens
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import RDF, ROTATE, task, uuid
from tests.tui.stage import staged


def happen(server: MockServer, number: int, status: str = "pending", was: str | None = None, **more: Any) -> None:
    server.happen("task.updated", task=task(number, status=status, **more), was=was)


async def test_what_happened_lately_and_what_happens_now_stands_there_the_newest_first(
    server: MockServer, clock: FrozenClock
) -> None:
    happen(server, 1)
    happen(server, 2)
    async with staged(server, clock) as stage:
        await stage.press("6")
        assert "6 Events  2" in stage.text()

        server.events.clear()
        happen(server, 3, "running", was="claimed")
        await stage.settle()

        first, second, _ = (line for line in stage.lines() if " → " in line and "12:00:00" in line and ROTATE in line)
        assert uuid(3)[-8:] in first
        assert "claimed → ● running" in first
        assert uuid(2)[-8:] in second


async def test_nothing_is_asked_for_while_nobody_looks(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        assert stage.asked("every") == []
        await stage.press("6")
        assert server.hears_events

        await stage.press("1")
        await stage.settle()

        assert not server.hears_events


async def test_the_cursor_follows_the_newest_until_it_is_moved(server: MockServer, clock: FrozenClock) -> None:
    for number in range(1, 6):
        happen(server, number)
    async with staged(server, clock) as stage:
        await stage.press("6")
        happen(server, 6)
        await stage.settle()
        assert uuid(6)[-8:] in stage.highlighted()
        assert "follows the newest" in stage.text()

        await stage.press("down")
        for number in range(7, 20):
            happen(server, number)
            await stage.settle()
        assert uuid(5)[-8:] in stage.highlighted()
        assert "stays on the row" in stage.text()

        await stage.press("F")
        assert uuid(19)[-8:] in stage.highlighted()


async def test_a_frozen_list_stands_still_and_counts_what_came(server: MockServer, clock: FrozenClock) -> None:
    happen(server, 1)
    async with staged(server, clock) as stage:
        await stage.press("6")
        await stage.press("z")
        for number in range(2, 9):
            happen(server, number)
        await stage.settle()
        await stage.pass_time(1)
        assert uuid(8)[-8:] not in stage.text()
        assert "frozen, 7 new since" in stage.text()

        await stage.press("z")
        assert uuid(8)[-8:] in stage.text()


async def test_enter_opens_the_task(server: MockServer, clock: FrozenClock) -> None:
    happen(server, 101)
    async with staged(server, clock) as stage:
        await stage.press("6")
        await stage.press("enter")
        assert f"{uuid(101)}  {ROTATE}" in stage.text()

        await stage.press("escape")
        assert "6 Events" in stage.text()


async def test_9_the_filter_is_the_same_language_and_means_what_was_and_what_comes(
    server: MockServer, clock: FrozenClock
) -> None:
    happen(server, 1, "failed", was="running", error="ValueError: no")
    happen(server, 2)
    async with staged(server, clock) as stage:
        await stage.press("6")
        await stage.press("slash", *"status:failed", "enter")
        assert uuid(1)[-8:] in stage.text()
        assert uuid(2)[-8:] not in stage.text()

        happen(server, 3, "failed", was="running")
        happen(server, 4)
        await stage.settle()
        assert uuid(3)[-8:] in stage.text()
        assert uuid(4)[-8:] not in stage.text()
        assert "2 of 4" in stage.text()

        await stage.press("slash", *" status:flying", "enter")
        assert 'there is no status "flying"' in stage.text()
        assert uuid(3)[-8:] in stage.text()
        await stage.press("escape")
        await stage.press("escape")
        assert uuid(4)[-8:] in stage.text()


async def test_7_after_a_break_what_was_missed_is_read_or_said_to_be_missing(
    server: MockServer, clock: FrozenClock
) -> None:
    happen(server, 1)
    async with staged(server, clock) as stage:
        await stage.press("6")
        server.drop()
        happen(server, 2)
        server.open()
        await stage.settle()
        assert uuid(2)[-8:] in stage.text()
        assert "reloaded" not in stage.text()

        server.drop()
        server.stream = "another start of the server"
        clock.advance(60)
        server.open()
        await stage.settle()
        assert "reloaded:   missed" in stage.text()
        assert "after 12:00:00" in stage.text()
        happen(server, 3)
        await stage.settle()
        assert uuid(3)[-8:] in stage.text()


async def test_7_a_server_that_keeps_nothing_from_before_is_no_gap(server: MockServer, clock: FrozenClock) -> None:
    happen(server, 1)
    server.first_event = server.seq + 1
    async with staged(server, clock) as stage:
        await stage.press("6")

        assert "reloaded" not in stage.text()
        assert "Nothing has happened since you opened" in stage.text()
        assert "$ treadle demo" in stage.text()


async def test_queues_and_workers_have_their_events_too(server: MockServer, clock: FrozenClock) -> None:
    much_happens(server)
    async with staged(server, clock) as stage:
        await stage.press("6")
        await stage.press("down")

        assert "queue   paused" in stage.highlighted()
        await stage.press("enter")
        assert f"2 Tasks  {RDF}" in stage.text()
