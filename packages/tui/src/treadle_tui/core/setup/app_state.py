"""State that outlives a switch to another server: keys, contexts, and the command history."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle_tui.core.draw.text import clean
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.verbs.commands import History
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Report

Notify: TypeAlias = Literal["off", "bell", "osc9", "osc777"]
"""How to notify the terminal while the user looks elsewhere."""

TRACE_ID = "{trace_id}"
"""The placeholder for a trace's id in the configured address."""


@dataclass
class AppState:
    """Outlives a switch to another server."""

    keymap: Keymap = field(default_factory=Keymap)
    history: History = field(default_factory=History)
    contexts: tuple[str, ...] = ()
    """The names that `:context` accepts."""
    views: Mapping[str, str] = field(default_factory=dict)
    """The filters of `:view`, by name."""
    notify: Notify = "off"
    """How to notify the terminal when a marked task ends or something needs attention."""
    trace_url: str | None = None
    """The address of a trace viewer; None if not configured."""
    web: bool = False
    """Whether the user is at a browser, without access to this machine's terminal and files."""
    _told: str | None = None

    def ending(self, connection: Connection) -> Report | None:
        """Return that the recording being written or played has ended; once each time."""
        words, ok, recorder, player = None, False, connection.recorder, connection.player
        if recorder is not None and recorder.ended is not None:
            words = f"recording has stopped: {clean(recorder.ended, limit=300)}"
        elif player is not None and player.at_end:
            again, back = (self.keymap.cap(name) for name in ("play", "rewind"))
            damage = player.recording.damage
            ok = damage is None
            end = (
                f"the recording ends here, because its {clean(damage, limit=80)}"
                if damage
                else "this is the end of the recording"
            )
            words = f"{end}: {again} plays it again, {back} goes back"
        is_news, self._told = words != self._told, words
        return Report(words, ok=ok) if words is not None and is_news else None
