"""A server that is looked at, or a recording: the link to it, its name, and how carefully it is to be treated."""

from dataclasses import dataclass, field

from treadle_tui.core.live.feed import Link
from treadle_tui.core.live.recorder import Recorder
from treadle_tui.core.live.replay import Player
from treadle_tui.core.state.clock import Clock, SystemClock


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the dashboard's data come from; another context is another connection."""

    link: Link
    server_name: str = "local"
    """What people call the server."""
    context: str | None = None
    """Its name in the configuration file; None for one that was named by hand."""
    room: str | None = None
    read_only: bool = False
    production: bool = False
    """Whether what is done here is done to a system that people depend on."""
    clock: Clock = field(default_factory=SystemClock)
    player: Player | None = None
    """Steers the recording, where it is one."""
    recorder: Recorder | None = None
    """Writes what is seen into a file."""
