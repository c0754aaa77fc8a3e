"""The panes and screens in which keys work, with their names."""

from treadle_tui.core.actions import Scope

PLACES: dict[Scope, str] = {
    "queues": "Queues",
    "tasks": "Tasks",
    "workers": "Workers",
    "targets": "Targets",
    "schedules": "Schedules",
    "events": "Events",
    "attention": "Attention",
    "detail": "A task",
    "everywhere": "Everywhere",
}
"""In the order of the help and the documentation."""
