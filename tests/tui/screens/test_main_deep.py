"""Far down in a long list: positions are told in full, and what nobody has counted is not made up."""

from tests.tui.mock import FrozenClock
from tests.tui.scene import scene, task
from tests.tui.stage import staged


async def test_4_positions_are_told_to_the_last_digit_in_a_list_of_a_hundred_thousand(clock: FrozenClock) -> None:
    server = scene(clock)
    rows = [task(number, queue_position=number) for number in range(1, 100_001)]
    server.tasks = {row["id"]: row for row in rows}

    async with staged(server, clock) as stage:
        await stage.press("2", "G")
        assert stage.highlighted().split()[2] == "100,000"
        await stage.press("up")
        assert stage.highlighted().split()[2] == "99,999"


async def test_7_where_the_server_stops_counting_rows_keep_their_place_and_their_numbers_are_said_to_be_about(
    clock: FrozenClock,
) -> None:
    server = scene(clock)
    server.counts_ahead_to = 1000
    rows = [task(number, queue_position=number) for number in range(1, 5001)]
    server.tasks = {row["id"]: row for row in rows}

    async with staged(server, clock) as stage:
        await stage.press("2", "G")
        last = stage.highlighted()
        server.push_topic("tasks")
        await stage.settle()

        assert stage.highlighted() == last
        assert "rows about 4,985-5,000 of 5,000" in stage.text()
        await stage.press("g")
        assert "rows 1-16 of 5,000" in stage.text()
