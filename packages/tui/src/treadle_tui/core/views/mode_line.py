"""The line at the top for anything but an ordinary live server: production, a recording, a replay."""

from treadle_tui.core.draw.format import age
from treadle_tui.core.draw.glyphs import Glyphs
from treadle_tui.core.draw.text import Span, Spans, clean, joined
from treadle_tui.core.live.recorder import Recorder
from treadle_tui.core.live.replay import Player
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.verbs.keymap import Keymap


def mode_line(connection: Connection, keymap: Keymap, glyphs: Glyphs) -> Spans:
    """Return the warnings and notes; nothing for an ordinary live server."""
    parts: list[Spans] = []
    if connection.production:
        shown = glyphs.clean(connection.server_name)
        parts.append((Span(f"PRODUCTION  {shown}: your actions affect a system in use", "bold"),))
    if connection.player is not None:
        parts.append(_replayed(connection.player, keymap, glyphs))
    if connection.recorder is not None:
        parts.append(_recorded(connection.recorder, glyphs))
    return (Span(" "), *joined(parts, gap="   ")) if parts else ()


def _replayed(player: Player, keymap: Keymap, glyphs: Glyphs) -> Spans:
    word = "ended" if player.at_end else "playing" if player.playing else "stopped"
    keys = "  ".join(f"{keymap.cap(name)} {text}" for name, text in _KEYS)
    when = player.now().astimezone().strftime("%Y-%m-%d %H:%M:%S")
    name = glyphs.clean(player.recording.name)
    return (
        Span(f"REPLAY {word} ", "hold"),
        Span(f"{age(player.position)} of {age(player.recording.seconds)} x{player.speed:g}  ", "bold"),
        Span(f"{when}  {keys}  {name}", "dim"),
    )


_KEYS = (("rewind", "-10s"), ("play", "play/stop"), ("skip", "+10s"))


def _recorded(recorder: Recorder, glyphs: Glyphs) -> Spans:
    name = glyphs.clean(str(recorder.path))
    if recorder.ended is not None:
        return (Span(f"{glyphs.cross} recording {name} ended: {clean(recorder.ended)}", "warn"),)
    return (Span(f"{glyphs.dot} recording ", "bad"), Span(f"{name}, {recorder.size / 1e6:,.1f} MB", "dim"))
