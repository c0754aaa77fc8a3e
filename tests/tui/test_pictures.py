"""How the screens look: the same from run to run, at several sizes, in dark, light and monochrome."""

import re
from collections.abc import Callable

import pytest
from textual.pilot import Pilot

from tests.tui.pictures import PICTURES, draw
from tests.tui.scenes import LOOKS, SCENES

SIZES = [(80, 24), (120, 36), (200, 50)]
NARROW = (60, 20)
"""A part of a divided terminal: what a tree, and lines beneath lines, look like where columns fall away."""
OWN = "own"
"""Instead of a look: the scene has chosen its theme itself."""
DRAWN = [
    (name, look, size)
    for name, scene in SCENES.items()
    for look in ([OWN] if "theme" in scene.options else LOOKS)
    for size in SIZES
] + [(name, next(iter(LOOKS)), NARROW) for name in ("flow", "limits")]


def _case(n: int, name: str, look: str, size: tuple[int, int]) -> object:
    """Leave to `nox -s crossed` every other pair of a screen and a look, and of the rest all sizes but one in turn."""
    pair = n // len(SIZES)
    turn = size == NARROW or (pair % 2 == 0 and pair % len(SIZES) == SIZES.index(size))
    marks = () if turn else (pytest.mark.crossed,)
    return pytest.param(name, look, size, id=f"{name}-{look}-{size[0]}x{size[1]}", marks=marks)


@pytest.mark.parametrize(("name", "look", "size"), [_case(n, *case) for n, case in enumerate(DRAWN)])
def test_a_screen_looks_as_it_did(
    name: str,
    look: str,
    size: tuple[int, int],
    snap_compare: Callable[..., bool],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if look == "monochrome":
        monkeypatch.setenv("NO_COLOR", "1")
    app, play = SCENES[name].dashboard()

    async def run(pilot: Pilot[None]) -> None:
        if look != OWN:
            app.theme = LOOKS[look]
        await play(pilot)

    assert snap_compare(app, terminal_size=size, run_before=run)


@pytest.mark.parametrize("name", SCENES)
async def test_a_picture_in_the_docs_shows_what_the_dashboard_draws(name: str) -> None:
    drawn = await draw(SCENES[name])

    assert (PICTURES / f"{name}.svg").read_text() == drawn, "draw them anew: nox -s pictures"


def test_a_picture_in_the_docs_asks_no_other_host_for_anything() -> None:
    drawn = "".join(path.read_text() for path in PICTURES.glob("*.svg"))

    assert drawn
    assert "url(http" not in drawn
    assert "@font-face" not in drawn


def test_the_page_of_the_dashboard_shows_every_picture() -> None:
    shown = set(re.findall(r"\(pictures/([a-z]+)\.svg\)", (PICTURES.parent / "dashboard.md").read_text()))

    assert shown == set(SCENES)
