"""What outlives the way from one server to another: the keys, the contexts, and what was typed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from treadle_tui.core.draw.text import clean
from treadle_tui.core.setup.connection import Connection
from treadle_tui.core.verbs.commands import History
from treadle_tui.core.verbs.keymap import Keymap
from treadle_tui.core.verbs.plan import Report

Notify: TypeAlias = Literal["off", "bell", "osc9", "osc777"]
"""How a terminal is told of something while the reader looks elsewhere."""

TRACE_ID = "{trace_id}"
"""What stands in the configured address for a trace's id."""


@dataclass
class AppState:
    """Outlives the way from one server to another."""

    keymap: Keymap = field(default_factory=Keymap)
    history: History = field(default_factory=History)
    contexts: tuple[str, ...] = ()
    """The names that `:context` knows."""
    views: Mapping[str, str] = field(default_factory=dict)
    """The filters that `:view` knows, by their names."""
    notify: Notify = "off"
    """How the terminal is told when a marked task ends, or something needs attention."""
    trace_url: str | None = None
    """Where a trace is looked at; None when nobody has said."""
    web: bool = False
    """Whether the reader sits before a browser: not at this machine's terminal, nor with its files."""
    _told: str | None = None

    def ending(self, connection: Connection) -> Report | None:
        """Return that a recording has ended, the one that is written or the one that is shown, once each time."""
        words, ok, recorder, player = None, False, connection.recorder, connection.player
        if recorder is not None and recorder.ended is not None:
            words = f"nothing is recorded any more: {clean(recorder.ended, limit=300)}"
        elif player is not None and player.at_end:
            again, back = (self.keymap.cap(name) for name in ("play", "rewind"))
            damage = player.recording.damage
            ok = damage is None
            end = (
                f"the recording ends here, for its {clean(damage, limit=80)}"
                if damage
                else "this is the end of the recording"
            )
            words = f"{end}: {again} shows it again, {back} goes back"
        is_news, self._told = words != self._told, words
        return Report(words, ok=ok) if words is not None and is_news else None
