"""What `:` commands mean on any screen: whether they are possible here, and who carries them out."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from treadle import filters
from treadle_tui.core.draw.spans import SPANS
from treadle_tui.core.setup.theme_names import THEMES
from treadle_tui.core.verbs.action import Action, Takes
from treadle_tui.core.verbs.actions import ACTIONS
from treadle_tui.core.verbs.commands import CommandError, Completion, begun_with, complete, read_command, wanted
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.screen_context import ScreenContext

_WHERE = {
    "queues": "the queues' pane (1)",
    "tasks": "the tasks' pane (2)",
    "workers": "the workers' pane (3)",
    "detail": "a task's screen",
    "flow": "a flow's screen (T)",
}


class Commandable(Protocol):
    """What a command needs of the screen that it is typed on."""

    ctx: ScreenContext

    @property
    def scope(self) -> Scope:
        """Which actions work where the focus is."""

    def act(self, name: str) -> None:
        """Carry out an action by its name in the registry."""

    def can(self, name: str) -> bool:
        """Return whether an action means something here without anything behind it."""

    def orders(self) -> Iterable[str]:
        """Return the names that `sort` takes here."""

    def messages(self) -> Iterable[str]:
        """Return the names of messages that were asked for here."""

    def steps(self) -> Iterable[str]:
        """Return the names of steps that are kept here."""


def run_command(screen: Commandable, line: str) -> None:
    """Carry a command out. Raises `CommandError`, or what reads its argument, when it can't be, before it is begun."""
    command = read_command(line)
    action = command.action
    _refuse_hidden(screen, action)
    if command.argument:
        handler: Callable[[str], None] | None = getattr(screen, f"with_{action.name.replace('-', '_')}", None)
        if handler is None:
            raise CommandError(f"{action.name} takes nothing behind it on this screen")
        handler(command.argument)
        return
    scope = screen.scope
    if not action.scopes & {scope, "everywhere"}:
        places = " or ".join(_WHERE.get(scope, f"the {scope}") for scope in sorted(action.scopes))
        hint = f", or {wanted(action)}" if action.takes is not None else ""
        raise CommandError(f"{action.name} works in {places}: go there first{hint}")
    if not screen.can(action.name):
        raise CommandError(wanted(action) or f"{action.name} means nothing on this screen")
    screen.act(action.name)


def _refuse_hidden(screen: Commandable, action: Action) -> None:
    if action.replay and not screen.ctx.model.is_recorded:
        raise CommandError(f"{action.name} steers a recording: start one by treadle watch --replay FILE")
    if action.local and screen.ctx.app_state.web:
        raise CommandError(f"{action.name} needs the terminal and the files of where the dashboard runs, not a browser")
    if action.writes and (refusal := screen.ctx.executor.off()) is not None:
        raise CommandError(f"{action.name} is off: {refusal.reason}")


def completions(screen: Commandable, line: str) -> Sequence[Completion]:
    """Return what a begun line could become on a screen."""
    here = list(screen.ctx.offered(screen.scope))
    elsewhere = [
        action for action in ACTIONS if action.takes is not None and action not in here and _is_possible(screen, action)
    ]
    return complete(line, [*here, *elsewhere], lambda takes, part: choices(screen, takes, part))


def _is_possible(screen: Commandable, action: Action) -> bool:
    try:
        _refuse_hidden(screen, action)
    except CommandError:
        return False
    return hasattr(screen, f"with_{action.name.replace('-', '_')}")


def choices(screen: Commandable, takes: Takes, part: str) -> Iterable[str]:
    """Return what could stand where an argument is begun."""
    model, app_state = screen.ctx.model, screen.ctx.app_state
    match takes:
        case "queue":
            return begun_with(part, model.queue_rows())
        case "filter":
            completed = filters.complete(part, screen.ctx.filter_words())
            return [] if completed is None else [completed]
        case "order":
            return begun_with(part, screen.orders())
        case "theme":
            return begun_with(part, THEMES)
        case "view":
            return begun_with(part, app_state.views)
        case "context":
            return begun_with(part, app_state.contexts)
        case "span":
            return begun_with(part, SPANS)
        case "task":
            return [key for key in model.tasks.rows if part and part in key][:20]
        case "message":
            return begun_with(part, screen.messages())
        case "step":
            return begun_with(part, screen.steps())
        case "file" | "time" | "factor" | "flow":
            return []
