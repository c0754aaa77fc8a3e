"""The list screens, by the name of the action that goes there."""

from typing import Any

from treadle_tui.screens.attention import Attention
from treadle_tui.screens.events import Events
from treadle_tui.screens.failures import Failures
from treadle_tui.screens.limits import Limits
from treadle_tui.screens.list_screen import ListScreen
from treadle_tui.screens.logs import Logs
from treadle_tui.screens.schedules import Schedules
from treadle_tui.screens.targets import Targets
from treadle_tui.screens.workers import Workers

LIST_SCREENS: dict[str, type[ListScreen[Any]]] = {
    screen.SCOPE: screen for screen in (Workers, Targets, Schedules, Limits, Failures, Events, Attention, Logs)
}
