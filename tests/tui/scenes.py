"""The screens worth a picture: a new one costs one line in `SCENES`, and is then snapshotted and drawn for the docs.

`tests/tui/scene.py` has what the server holds in all of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.happenings import (
    a_storied_task_with_much_in_it,
    hearts_beat,
    limits_are_full,
    much_happens,
    only_a_task_that_waits_for_a_message,
    only_tasks_of_a_flow,
    schedules_tick,
    targets_are_held,
    tasks_have_failed,
    tasks_log,
    things_go_wrong,
)
from tests.tui.mock import FrozenClock, MockServer
from tests.tui.scene import scene, storied_task
from tests.tui.stage import dashboard, settle
from treadle_tui.app import Dashboard

LOOKS = {"dark": "treadle-dark", "light": "treadle-light", "monochrome": "treadle-mono"}
"""Each look's theme; monochrome is what NO_COLOR makes of it."""


def as_it_is(_: MockServer) -> None:
    """Change nothing of what the server holds."""


def nothing_happens(_: MockServer, __: FrozenClock) -> None:
    """Leave the server alone once the keys are pressed."""


@dataclass(frozen=True)
class Scene:
    """How to come to a screen."""

    caption: str
    """What there is to see, for the picture in the docs."""
    keys: tuple[str, ...] = ()
    """What is pressed, in Textual's spelling."""
    prepare: Callable[[MockServer], object] = as_it_is
    """Puts into the server what the screen is to show, before the dashboard starts."""
    happens: Callable[[MockServer, FrozenClock], None] = nothing_happens
    """What befalls the server after the keys."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the dashboard is started with."""

    def dashboard(self) -> "tuple[Dashboard, Callable[[Pilot[None]], Any]]":
        """Return a dashboard on the scene's server, and what brings the running one to the scene's screen."""
        clock = FrozenClock()
        server = scene(clock)
        self.prepare(server)
        return dashboard(server, clock, **self.options), lambda pilot: self._play(pilot, server, clock)

    async def _play(self, pilot: Pilot[None], server: MockServer, clock: FrozenClock) -> None:
        assert isinstance(pilot.app, Dashboard)
        await settle(pilot)
        pilot.app.model.heard(0.004)
        await settle(pilot)
        for key in self.keys:
            await pilot.press(key)
            await settle(pilot)
        self.happens(server, clock)
        # What blinks by the machine's clock would be drawn in either state.
        for line in pilot.app.screen.query(Input):
            line.cursor_blink = False
        await settle(pilot)


def only_the_storied_task(server: MockServer) -> None:
    key = storied_task(server)
    server.tasks = {key: server.tasks[key]}


def nothing_yet(server: MockServer) -> None:
    """A server that was started a minute ago."""
    for rows in (server.jobs, server.workers, server.tasks):
        rows.clear()


def goes_away(server: MockServer, clock: FrozenClock) -> None:
    server.drop()
    clock.advance(2)


SCENES = {
    "main": Scene("Queues, and the highlighted queue's tasks", ("2", *["pagedown"] * 2, *["space"] * 2), storied_task),
    "detail": Scene("One task, from its creation to now", ("2", "enter"), only_the_storied_task),
    "flow": Scene("A flow as a tree, with what takes the longest", ("2", "enter", "T", "down"), only_tasks_of_a_flow),
    "workers": Scene("Workers", ("3", "down"), storied_task, hearts_beat),
    "targets": Scene("Targets: what holds each, and who waits", ("4", "down"), targets_are_held),
    "schedules": Scene("Schedules: when each is next, and what became of the last", ("5", "down"), schedules_tick),
    "limits": Scene("Limits: what is used of each, and who waits", ("8", "down"), limits_are_full),
    "events": Scene("Each transition as it happens", ("6", "down", "down"), much_happens),
    "failures": Scene("Failures in groups, by the error and where it was raised", ("7",), tasks_have_failed),
    "logs": Scene("The logs of several tasks as one", ("2", "l", "down"), tasks_log),
    "attention": Scene("What needs attention, the worst first", ("exclamation_mark", "down"), things_go_wrong),
    "payload": Scene("A task's payload, folded", ("2", "enter", *["shift+tab"] * 3), a_storied_task_with_much_in_it),
    "message": Scene(
        "A message for a task that waits for it",
        ("2", "enter", "m", *'{"by": "ann"'),
        only_a_task_that_waits_for_a_message,
    ),
    "help": Scene("Every key", ("question_mark",)),
    "question": Scene("What runs is cancelled after a question", ("2", "space", "space", "c")),
    "command": Scene("A command, completed as it is typed", ("colon", *"pa")),
    "production": Scene("A server that people depend on", options={"server_name": "queue.example", "production": True}),
    "colourblind": Scene("Okabe and Ito's colours", ("2", "down"), options={"theme": "colourblind"}),
    "contrast": Scene("High contrast", ("2", "down"), options={"theme": "contrast"}),
    "empty": Scene("An empty server says what to type next", prepare=nothing_yet),
    "lost": Scene("A server that is gone: the data is dimmed and its age is told", ("2",), happens=goes_away),
    "ascii": Scene("With ASCII characters alone", ("2", "down", "space"), options={"ascii_only": True}),
}
"""Every screen by its name."""
