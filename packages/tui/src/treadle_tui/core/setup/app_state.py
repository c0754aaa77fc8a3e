"""What outlives the way from one server to another: the keys, the contexts, and what was typed."""

from dataclasses import dataclass, field

from treadle_tui.core.live.recorder import Recorder
from treadle_tui.core.live.replay import Player
from treadle_tui.core.verbs.commands import History
from treadle_tui.core.verbs.keymap import Keymap


@dataclass
class AppState:
    """Outlives the way from one server to another."""

    keymap: Keymap = field(default_factory=Keymap)
    history: History = field(default_factory=History)
    themes: tuple[str, ...] = ()
    """The names that `:theme` knows."""
    contexts: tuple[str, ...] = ()
    """The names that `:context` knows."""
    context: str | None = None
    """The one that is shown now; None for a server that was named by hand."""
    production: bool = False
    """Whether what is done here is done to a system that people depend on."""
    web: bool = False
    """Whether the reader sits before a browser: not at this machine's terminal, nor with its files."""
    player: Player | None = None
    """Steers the recording that is shown; None for a live server."""
    recorder: Recorder | None = None
    """Writes what is seen into a file; None when nothing is recorded."""
