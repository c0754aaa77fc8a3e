"""The style of each tone: in each theme, in out-of-date data, and in the line that warns of production.

They are not Textual component classes, because Textual recomputed twelve styles for each widget whenever one of its
styles changed. That took two fifths of all the processor time of the dashboard's tests.
"""

from collections.abc import Mapping
from functools import cache
from typing import Literal

from rich.style import Style
from textual.color import Color

from treadle_tui.theme import MONO, THEMES, TONES

ToneVariant = Literal["usual", "stale", "production"]
"""Where a tone is used: `stale` in out-of-date data shown without a connection, `production` in the warning line."""

_BOLD = {"bold", "title", "bad"}
_BOLD_WITHOUT_COLOURS = {"bold", "title", "accent", "warn", "bad"}
_NEVER_DIMMED = {"dim", "faint", "title"}
_WARNING = {"plain", "dim", "bold", "hold", "warn", "bad"}
"""The tones that take the warning's colour in its line."""


@cache
def tones(theme: str, place: ToneVariant) -> Mapping[str, Style]:
    """Return the style of every tone, without a background, in the Textual theme of that name."""
    variables = next(one for one in THEMES.values() if one.name == theme).variables
    usual = {tone: _style(variables[f"tone-{tone}"], _usual_text(tone, mono=theme == MONO.name)) for tone in TONES}
    match place:
        case "usual":
            special: dict[str, Style] = {}
        case "stale":
            special = dict.fromkeys(set(TONES) - _NEVER_DIMMED, usual["faint"])
        case "production":
            special = dict.fromkeys(_WARNING, _style(variables["production-text"], "bold"))
            if theme == MONO.name:
                special["bold"] = _style(variables["production-text"], "reverse")
    # A match has no colour of its own.
    return {**usual, **special, "match": Style(reverse=True)}


def _usual_text(tone: str, *, mono: bool) -> str:
    if mono and tone == "bad":
        return "bold underline"
    return "bold" if tone in (_BOLD_WITHOUT_COLOURS if mono else _BOLD) else ""


def _style(colour: str, text: str) -> Style:
    return Style(color=Color.parse(colour).rich_color) + Style.parse(text)
