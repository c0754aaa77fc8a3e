"""The command `treadle` on a machine whose time of day is off by as much as a file says, and may be set meanwhile."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from treadle_server.clock import SystemClock

FILE = "TREADLE_TEST_CLOCK"


def now(clock: SystemClock) -> datetime:
    """Return the instant that this machine shows."""
    return datetime.now(UTC) + timedelta(seconds=float(Path(os.environ[FILE]).read_text() or 0))


def main() -> None:
    """Run the command."""
    from treadle.cli import main as command

    SystemClock.now = now  # type: ignore[method-assign]
    command()
