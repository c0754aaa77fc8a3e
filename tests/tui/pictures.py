"""Draws each screen for the docs: `python -m tests.tui.pictures`, or `nox -s pictures`."""

import asyncio
import os
import re
import time
from pathlib import Path

from tests.tui.scenes import SCENES, Scene

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
SIZE = (120, 36)


async def draw(scene: Scene, size: tuple[int, int] = SIZE) -> str:
    """Return the scene's screen as SVG that needs no other file and is the same on every machine."""
    app, play = scene.dashboard()
    async with app.run_test(size=size) as pilot:
        await play(pilot)
        return portable(app.export_screenshot(title="treadle watch"))


def portable(svg: str) -> str:
    """Let the picture use the reader's own fonts, and name its parts after the dashboard.

    As Rich makes it, it would load fonts from a public server, and the names have a checksum that differs by machine.
    """
    without_fonts = re.sub(r"\s*@font-face\s*\{[^}]*\}", "", svg)
    return re.sub(r"terminal-\d+", "treadle", without_fonts)


async def main() -> None:
    """Draw all of them, and remove those whose scene is gone."""
    PICTURES.mkdir(exist_ok=True)
    for path in PICTURES.glob("*.svg"):
        if path.stem not in SCENES:
            path.unlink()
    for name, scene in SCENES.items():
        (PICTURES / f"{name}.svg").write_text(await draw(scene))


if __name__ == "__main__":
    # Times of day in the pictures are those of one zone, wherever they are drawn.
    os.environ["TZ"] = "UTC"
    time.tzset()
    asyncio.run(main())
