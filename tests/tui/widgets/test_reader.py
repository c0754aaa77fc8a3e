"""The mouse in a text: the line under it is the cursor's, and what begins there is folded by a second click."""

import pytest

from tests.tui.happenings import a_storied_task_with_much_in_it
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged


@pytest.mark.parametrize("times", [2, 3])
async def test_what_begins_under_the_mouse_is_folded_by_a_second_click(
    server: MockServer, clock: FrozenClock, times: int
) -> None:
    a_storied_task_with_much_in_it(server)
    async with staged(server, clock) as stage:
        await stage.press("2", "enter", *["shift+tab"] * 3)
        place = next(place for place, line in enumerate(stage.lines()) if '▾ "frames": [' in line)

        await stage.pilot.click(offset=(60, place), times=times)
        await stage.settle()

        assert '▸ "frames": [ 400 items ]' in stage.lines()[place]
