"""The themes: the colour of every tone, each with a contrast of at least 4.5 against every background it is used on."""

from collections.abc import Mapping

from textual.theme import Theme

_DARK = {
    "plain": "#d3dce4",
    "dim": "#95a3b0",
    "faint": "#8592a0",
    "bold": "#f2f6fa",
    "title": "#8fa3b5",
    "accent": "#5cc4cf",
    "ok": "#7ec97e",
    "run": "#6cb6ff",
    "wait": "#c3cdd6",
    "hold": "#e0b45c",
    "warn": "#ffb454",
    "bad": "#ff7b72",
}

_LIGHT = {
    "plain": "#24292e",
    "dim": "#4f5963",
    "faint": "#5a646e",
    "bold": "#0b0e11",
    "title": "#44515e",
    "accent": "#0a6472",
    "ok": "#176a2e",
    "run": "#0a4fa8",
    "wait": "#3a434b",
    "hold": "#7a4f00",
    "warn": "#8a4200",
    "bad": "#a8201a",
}


_CONTRAST = {
    "plain": "#ffffff",
    "dim": "#d6d6d6",
    "faint": "#c9c9c9",
    "bold": "#ffffff",
    "title": "#ffffff",
    "accent": "#5ff5ff",
    "ok": "#5dff5d",
    "run": "#8ecbff",
    "wait": "#ffffff",
    "hold": "#ffd75f",
    "warn": "#ffb02e",
    "bad": "#ffb0ab",
}

# The palette of Okabe and Ito (2008, "Color Universal Design"), whose colours people with any common kind of colour
# blindness can tell apart; without its blue, which is too dark on black.
_COLOURBLIND = {
    "plain": "#e4e8ea",
    "dim": "#a9b4bc",
    "faint": "#929da6",
    "bold": "#ffffff",
    "title": "#b9c4cb",
    "accent": "#cc79a7",
    "ok": "#009e73",
    "run": "#56b4e9",
    "wait": "#d0d6da",
    "hold": "#f0e442",
    "warn": "#e69f00",
    "bad": "#d55e00",
}

_SIXTEEN = {
    "plain": "ansi_white",
    "dim": "ansi_white",
    "faint": "ansi_white",
    "bold": "ansi_bright_white",
    "title": "ansi_bright_white",
    "accent": "ansi_bright_cyan",
    "ok": "ansi_bright_green",
    "run": "ansi_bright_cyan",
    "wait": "ansi_white",
    "hold": "ansi_bright_yellow",
    "warn": "ansi_bright_yellow",
    "bad": "ansi_bright_red",
}
"""Only those of the terminal's sixteen colours that every common palette shows bright enough on black."""

TONES = tuple(_DARK)
"""The names of the tones."""

_MONO = dict.fromkeys(TONES, "ansi_default")


_ANSI = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_default",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    # Both colours are the terminal's own, so the cursor is shown by its style.
    "input-cursor-text-style": "reverse",
    "input-cursor-background": "ansi_default",
    "input-cursor-foreground": "ansi_default",
    "input-selection-foreground": "ansi_default",
    "screen-selection-foreground": "ansi_default",
    "screen-selection-background": "ansi_default",
}
"""The variables that Textual's own styles need in a theme without true colours."""


def _theme(
    name: str,
    tones: Mapping[str, str],
    *,
    dark: bool,
    background: str,
    raised: str,
    cursor: str,
    frame: str,
    production: tuple[str, str] = ("#b3001b", "#ffffff"),
    ansi: bool = False,
) -> Theme:
    return Theme(
        name=name,
        dark=dark,
        ansi=ansi,
        primary=tones["accent"],
        secondary=tones["run"],
        accent=tones["accent"],
        success=tones["ok"],
        warning=tones["warn"],
        error=tones["bad"],
        foreground=tones["plain"],
        background=background,
        surface=background,
        panel=raised,
        variables={
            **{f"tone-{tone}": colour for tone, colour in tones.items()},
            "cursor": cursor,
            "cursor-away": raised,
            "frame": frame,
            "frame-focus": tones["accent"],
            "raised": raised,
            "production": production[0],
            "production-text": production[1],
            "footer-background": background,
            "input-cursor-background": tones["plain"],
            "input-cursor-foreground": background,
            "input-selection-background": cursor,
            **(_ANSI if ansi else {}),
        },
    )


DARK = _theme(
    "treadle-dark", _DARK, dark=True, background="#0e1216", raised="#182029", cursor="#1c2a38", frame="#3b4855"
)
LIGHT = _theme(
    "treadle-light", _LIGHT, dark=False, background="#fbfaf7", raised="#efede6", cursor="#cdecf4", frame="#a9b0b6"
)
CONTRAST = _theme(
    "treadle-contrast",
    _CONTRAST,
    dark=True,
    background="#000000",
    raised="#0d0d0d",
    cursor="#002a4d",
    frame="#9a9a9a",
    production=("#ffff00", "#000000"),
)
COLOURBLIND = _theme(
    "treadle-colourblind",
    _COLOURBLIND,
    dark=True,
    background="#05080a",
    raised="#0d1318",
    cursor="#0a1830",
    frame="#46525c",
    production=("#f0e442", "#000000"),
)
SIXTEEN = _theme(
    "treadle-sixteen",
    _SIXTEEN,
    dark=True,
    background="ansi_black",
    raised="ansi_black",
    cursor="ansi_black",
    frame="ansi_white",
    production=("ansi_bright_yellow", "ansi_black"),
    ansi=True,
)
MONO = _theme(
    "treadle-mono",
    _MONO,
    dark=True,
    background="ansi_default",
    raised="ansi_default",
    cursor="ansi_default",
    frame="ansi_default",
    production=("ansi_default", "ansi_default"),
    ansi=True,
)

THEMES: dict[str, Theme] = {
    theme.name.removeprefix("treadle-"): theme for theme in (DARK, LIGHT, CONTRAST, COLOURBLIND, SIXTEEN, MONO)
}
"""The themes by the names that users write, in the order in which `:theme` cycles through them."""


def fitting(colour_system: str | None) -> str:
    """Return the name of the theme for one of Rich's colour systems, which is None for a terminal without colours."""
    if colour_system is None:
        return "mono"
    return "sixteen" if colour_system == "standard" else "dark"
