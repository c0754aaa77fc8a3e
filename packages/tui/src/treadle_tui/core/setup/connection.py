"""A server or a recording to watch: its link, its name, and how it may be used."""

from dataclasses import dataclass, field

from treadle_tui.core.live.feed import Link
from treadle_tui.core.live.recorder import Recorder
from treadle_tui.core.live.replay import Player
from treadle_tui.core.state.clock import Clock, SystemClock


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where the dashboard's data comes from; each context has its own connection."""

    link: Link
    server_name: str = "local"
    """The display name of the server."""
    context: str | None = None
    """Its name in the configuration file; None for a server given on the command line."""
    room: str | None = None
    read_only: bool = False
    production: bool = False
    """Whether people depend on the system, so that a warning is shown."""
    clock: Clock = field(default_factory=SystemClock)
    player: Player | None = None
    """Controls the replay, if this is a recording."""
    recorder: Recorder | None = None
    """Writes what is seen to a file."""
