"""The palette, clicked: it closes once, and runs what was chosen once, however fast the clicks come."""

from textual import events

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import Stage, staged


async def click_twice(stage: Stage, x: int, y: int) -> None:
    """Click twice before anything of the first click is handled, as a terminal sends a double click."""
    for _ in range(2):
        for kind in (events.MouseDown, events.MouseUp):
            stage.app.post_message(kind(None, x, y, 0, 0, 1, False, False, False, x, y))
    await stage.settle()


async def test_a_double_click_beside_the_palette_closes_the_palette_alone(
    server: MockServer, clock: FrozenClock
) -> None:
    """The second click closed the screen beneath: the terminal stayed empty, and no key did anything."""
    async with staged(server, clock) as stage:
        await stage.press("ctrl+p")

        await click_twice(stage, 1, 34)

        assert "1 Queues" in stage.text()
        await stage.press("3")
        assert "3 Workers" in stage.text()


async def test_a_double_click_on_an_action_carries_it_out_once(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("ctrl+p", *"pause-queue")
        place = next(y for y, line in enumerate(stage.lines()) if "Pause the queue" in line)

        await click_twice(stage, 60, place)

        assert len(stage.asked("job")) == 1
        assert "1 Queues" in stage.text()
