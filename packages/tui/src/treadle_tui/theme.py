"""Two themes, and the colour of every tone in them: each at a contrast of 4.5 or more on what it stands on."""

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


def _theme(
    name: str, tones: dict[str, str], *, dark: bool, background: str, raised: str, cursor: str, frame: str
) -> Theme:
    return Theme(
        name=name,
        dark=dark,
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
            "footer-background": background,
            "input-cursor-background": tones["plain"],
            "input-selection-background": cursor,
        },
    )


DARK = _theme(
    "treadle-dark", _DARK, dark=True, background="#0e1216", raised="#182029", cursor="#1c2a38", frame="#3b4855"
)
LIGHT = _theme(
    "treadle-light", _LIGHT, dark=False, background="#fbfaf7", raised="#efede6", cursor="#dfe6ea", frame="#a9b0b6"
)

GROUNDS = ("background", "cursor-away", "cursor")
"""What tones stand on."""
