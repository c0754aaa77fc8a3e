"""How the screens look: the same from run to run, at three sizes, in colour and without."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from treadle_tui.app import Dashboard

from .mock import FrozenClock, MockServer
from .scene import storied_task
from .stage import dashboard, settle, staged

SIZES = [(80, 24), (120, 36), (200, 50)]
KEYS = {"main": ("2", "down", "space"), "workers": ("3", "down"), "detail": ("2", "enter"), "help": ("question_mark",)}
PICTURE = Path(__file__).parents[2] / "docs" / "dashboard.svg"


def ready(*keys: str) -> Callable[[Pilot[None]], object]:
    async def run(pilot: Pilot[None]) -> None:
        assert isinstance(pilot.app, Dashboard)
        await settle(pilot)
        pilot.app.model.heard(0.004)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)

    return run


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("screen", ["main", "workers", "detail"])
def test_a_screen_looks_as_it_did(
    screen: str, size: tuple[int, int], server: MockServer, clock: FrozenClock, snap_compare: Callable[..., bool]
) -> None:
    key = storied_task(server)
    if screen == "detail":
        server.tasks = {key: server.tasks[key]}

    assert snap_compare(dashboard(server, clock), terminal_size=size, run_before=ready(*KEYS[screen]))


def test_a_lost_server_looks_as_it_did(
    server: MockServer, clock: FrozenClock, snap_compare: Callable[..., bool]
) -> None:
    async def run(pilot: Pilot[None]) -> None:
        await ready("2")(pilot)  # type: ignore[misc]
        server.drop()
        clock.advance(2)
        await settle(pilot)

    assert snap_compare(dashboard(server, clock), terminal_size=(120, 36), run_before=run)


def test_in_monochrome_it_looks_as_it_did(
    server: MockServer, clock: FrozenClock, snap_compare: Callable[..., bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert snap_compare(dashboard(server, clock), terminal_size=(80, 24), run_before=ready(*KEYS["main"]))


def test_in_ascii_it_looks_as_it_did(server: MockServer, clock: FrozenClock, snap_compare: Callable[..., bool]) -> None:
    app = dashboard(server, clock, ascii_only=True)

    assert snap_compare(app, terminal_size=(120, 36), run_before=ready(*KEYS["main"]))


async def test_the_picture_in_the_docs_is_up_to_date(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        await stage.press("2", *["down"] * 3, "space")
        drawn = _stable(stage.app.export_screenshot(title="treadle watch"))
    if not PICTURE.exists():
        PICTURE.write_text(drawn)

    assert PICTURE.read_text() == drawn, f"the dashboard looks different now: remove {PICTURE.name}, and run this again"


def _stable(svg: str) -> str:
    """Name the picture's parts after the dashboard, for their usual name is a checksum that differs by machine."""
    return re.sub(r"terminal-\d+", "treadle", svg)
