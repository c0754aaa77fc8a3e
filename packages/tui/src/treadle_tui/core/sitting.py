"""A server that is looked at: the connection, its name, and how carefully."""

from dataclasses import dataclass, field

from treadle_tui.core.clock import Clock, SystemClock
from treadle_tui.core.feed import Link
from treadle_tui.core.record import Recorder
from treadle_tui.core.replay import Player


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """What the dashboard is put before; another context is another sitting."""

    link: Link
    place: str = "local"
    """What people call the server."""
    context: str | None = None
    """Its name in the configuration file."""
    room: str | None = None
    read_only: bool = False
    production: bool = False
    clock: Clock = field(default_factory=SystemClock)
    player: Player | None = None
    """Steers the recording, where it is one."""
    recorder: Recorder | None = None
