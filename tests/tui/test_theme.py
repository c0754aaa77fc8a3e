"""Behaviour 8: every tone can be read on everything that it stands on, in every theme and terminal."""

import os
import pty
import subprocess
import sys

import pytest
from rich.color import Color as Cell
from rich.color import ColorSystem
from rich.segment import Segment
from textual.color import Color
from textual.theme import Theme

from tests.tui.mock import FrozenClock, MockServer
from tests.tui.stage import staged
from treadle_tui.core.setup.theme_names import THEMES as NAMES
from treadle_tui.theme import THEMES, TONES, fitting
from treadle_tui.widgets.grid import Grid

COLOURED = [theme for theme in THEMES.values() if not theme.ansi]

PALETTES = {
    "xterm": {"black": "#000000", "white": "#e5e5e5", "bright_white": "#ffffff", "bright_magenta": "#ff00ff"}
    | {"bright_green": "#00ff00", "bright_cyan": "#00ffff", "bright_yellow": "#ffff00", "bright_red": "#ff0000"},
    "vga": {"black": "#000000", "white": "#aaaaaa", "bright_white": "#ffffff", "bright_magenta": "#ff55ff"}
    | {"bright_green": "#55ff55", "bright_cyan": "#55ffff", "bright_yellow": "#ffff55", "bright_red": "#ff5555"},
    "solid console": {"black": "#0c0c0c", "white": "#cccccc", "bright_white": "#f2f2f2", "bright_magenta": "#b4009e"}
    | {"bright_green": "#16c60c", "bright_cyan": "#61d6d6", "bright_yellow": "#f9f1a5", "bright_red": "#e74856"},
}
"""What the sixteen names are on usual terminals."""


def luminance(colour: Color) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def grounds(theme: Theme) -> dict[str, str]:
    """Everything that text stands on."""
    return {"background": str(theme.background), "raised": str(theme.panel), "cursor": theme.variables["cursor"]}


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
@pytest.mark.parametrize("tone", TONES)
def test_8_a_tone_has_a_contrast_of_four_and_a_half(theme: Theme, tone: str) -> None:
    seen = {name: contrast(theme.variables[f"tone-{tone}"], ground) for name, ground in grounds(theme).items()}

    assert min(seen.values()) >= 4.5, seen


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_8_with_256_colours_the_tones_have_the_contrast_too_and_the_highlighted_row_its_ground(theme: Theme) -> None:
    def nearest(colour: str) -> str:
        return Cell.parse(colour).downgrade(ColorSystem.EIGHT_BIT).get_truecolor().hex

    shown = {name: nearest(ground) for name, ground in grounds(theme).items()}
    low = {
        (tone, name): seen
        for tone in TONES
        for name, ground in shown.items()
        if (seen := contrast(nearest(theme.variables[f"tone-{tone}"]), ground)) < 4.5
    }

    assert low == {}
    assert shown["cursor"] not in {shown["background"], shown["raised"]}


@pytest.mark.parametrize("tone", TONES)
def test_8_the_theme_of_high_contrast_has_seven(tone: str) -> None:
    theme = THEMES["contrast"]

    assert min(contrast(theme.variables[f"tone-{tone}"], ground) for ground in grounds(theme).values()) >= 7


@pytest.mark.parametrize("theme", COLOURED, ids=lambda theme: theme.name)
def test_8_the_production_banner_can_be_read_and_is_no_other_ground(theme: Theme) -> None:
    ground = theme.variables["production"]

    assert contrast(theme.variables["production-text"], ground) >= 4.5
    assert ground not in grounds(theme).values()


@pytest.mark.parametrize("palette", PALETTES.values(), ids=PALETTES)
@pytest.mark.parametrize("tone", TONES)
def test_8_with_sixteen_colours_usual_palettes_have_the_contrast_too(palette: dict[str, str], tone: str) -> None:
    theme = THEMES["sixteen"]
    shown = {name: palette[colour.removeprefix("ansi_")] for name, colour in grounds(theme).items()}
    colour = palette[theme.variables[f"tone-{tone}"].removeprefix("ansi_")]

    assert min(contrast(colour, ground) for ground in shown.values()) >= 4.5


def test_the_configuration_knows_each_theme_by_name() -> None:
    assert tuple(THEMES) == NAMES


def test_a_terminal_gets_the_theme_that_it_can_show() -> None:
    assert [fitting(system) for system in ("truecolor", "256", "standard", None)] == ["dark", "dark", "sixteen", "mono"]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.crossed] * (n > 1)) for n, name in enumerate(THEMES)]
)
async def test_8_every_theme_draws_every_screen(name: str, server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, theme=name) as stage:
        for keys in (("2", "down"), ("3",), ("question_mark", "escape"), ("colon", "escape"), ("2", "enter")):
            await stage.press(*keys)

        assert stage.app.theme == THEMES[name].name


@pytest.mark.parametrize("name", [name for name, theme in THEMES.items() if theme in COLOURED])
async def test_8_the_palette_can_be_read_in_every_theme(name: str, server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock, theme=name) as stage:
        await stage.press("ctrl+p")
        written = [part for strip in stage.app.screen._compositor.render_strips() for part in strip]
        palette = [part for part in written if "for commands" in part.text or "Open the highlighted" in part.text]

        def seen(part: Segment) -> float:
            assert part.style is not None
            assert part.style.color is not None
            assert part.style.bgcolor is not None
            return contrast(part.style.color.name, part.style.bgcolor.name)

        assert {part.text.strip(): seen(part) for part in palette if seen(part) < 4.5} == {}
        assert len(palette) == 2


async def test_8_no_color_means_no_colour_at_all(
    server: MockServer, clock: FrozenClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async with staged(server, clock) as stage:
        for keys in (
            (), ("2", "down"), ("3",), ("question_mark",), ("escape", "ctrl+p"), (*"pau",), ("down",),
            ("escape", "escape", "colon"), (*"fi",), ("escape", "2", "slash"), (*"status:",), ("escape", "x"),
            ("escape", "enter"), ("slash", *"a", "enter"), ("m",),
        ):  # fmt: skip
            await stage.press(*keys)
            styles = [s.style for strip in stage.app.screen._compositor.render_strips() for s in strip if s.style]
            colours = [colour for style in styles for colour in (style.color, style.bgcolor) if colour is not None]

            assert {colour.name for colour in colours} <= {"default"}, keys


async def test_8_without_colours_the_highlighted_row_and_what_is_wrong_still_stand_out(
    server: MockServer, clock: FrozenClock
) -> None:
    async with staged(server, clock, theme="mono") as stage:
        strips = stage.app.screen._compositor.render_strips()
        row = next(strip for strip in strips if strip.text.startswith("│ > "))

        assert any(segment.style is not None and segment.style.reverse for segment in row)

        await stage.press("ctrl+p")
        strips = stage.app.screen._compositor.render_strips()
        options = [strip for strip in strips if strip.text.strip() in {"open", "export"}]
        assert [any(part.style is not None and part.style.underline for part in strip) for strip in options] == [
            True,
            False,
        ]


@pytest.mark.parametrize(("term", "theme"), [("xterm-256color", "treadle-dark"), ("xterm", "treadle-sixteen")])
def test_8_the_theme_follows_the_terminal(term: str, theme: str) -> None:
    code = (
        "from treadle.transport.bearer import Bearer;"
        "from treadle_tui.app import Dashboard; from treadle_tui.core.live.feed import Feed;"
        "from treadle_tui.core.live.link import SessionLink; from treadle_tui.core.state.model import Model;"
        "from treadle_tui.core.setup.connection import Connection;"
        "model = Model(); link = SessionLink(('http://127.0.0.1:9',), Bearer());"
        "print(Dashboard(model, Feed(model, link), Connection(link=link)).theme)"
    )
    environment = {key: value for key, value in os.environ.items() if key not in {"COLORTERM", "NO_COLOR"}}
    parent, child = pty.openpty()
    try:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=child, env={**environment, "TERM": term})
        assert os.read(parent, 1000).decode().strip() == theme
    finally:
        os.close(parent)
        os.close(child)


async def test_frames_take_another_themes_colours_as_well(server: MockServer, clock: FrozenClock) -> None:
    async with staged(server, clock) as stage:
        grid = stage.app.screen.query_one("#queues", Grid)

        stage.app.theme = THEMES["light"].name
        await stage.settle()
        await stage.pass_time(1)

        words = grid._border_title
        assert words is not None
        colours = {span.style.foreground.hex.lower() for span in words.spans}
        assert colours <= set(THEMES["light"].variables.values())
