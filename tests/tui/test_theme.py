"""Every tone can be read on everything that it stands on."""

import pytest
from textual.color import Color
from textual.theme import Theme

from treadle_tui.theme import DARK, LIGHT
from treadle_tui.widgets.paper import TONES


def luminance(colour: Color) -> float:
    """Relative luminance as WCAG 2.2 defines it."""
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(Color.parse(one)), luminance(Color.parse(other))), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize("tone", TONES)
def test_a_tone_has_a_contrast_of_four_and_a_half(theme: Theme, tone: str) -> None:
    grounds = {"background": str(theme.background), "raised": str(theme.panel), "cursor": theme.variables["cursor"]}
    needed = {name: contrast(theme.variables[f"tone-{tone}"], ground) for name, ground in grounds.items()}

    assert min(needed.values()) >= 4.5, needed
