"""Dispatch of `:` commands on any screen: whether they are possible here, and which method carries them out."""

from collections.abc import Callable, Iterable, Sequence

from treadle import filters
from treadle_tui.core.draw.spans import SPANS
from treadle_tui.core.live.replay import ReplayError
from treadle_tui.core.setup.theme_names import THEMES
from treadle_tui.core.verbs.action import Action, Takes
from treadle_tui.core.verbs.actions import ACTIONS, MOVES, WAYS
from treadle_tui.core.verbs.commands import CommandError, Completion, begun_with, complete, read_command, wanted
from treadle_tui.core.verbs.messages import MessageError
from treadle_tui.core.verbs.reruns import StepError
from treadle_tui.core.verbs.scopes import Scope
from treadle_tui.screens.asking import AskingScreen
from treadle_tui.widgets.command_line import CommandLine

_WHERE = {
    "queues": "the queues pane (1)",
    "tasks": "the tasks pane (2)",
    "workers": "the workers screen (3)",
    "detail": "a task's screen",
    "flow": "a flow's screen (T)",
}


WRONG = (CommandError, filters.FilterError, MessageError, ReplayError, StepError)
"""The errors of an invalid line, raised before anything is done, so that the user can correct it."""


class CommandScreen(AskingScreen):
    """A screen that accepts commands: which ones have a meaning here, and how their arguments are completed."""

    @property
    def scope(self) -> Scope:
        """The scope of actions where the focus is."""
        return "everywhere"

    def act(self, name: str) -> None:
        """Carry out an action by its name in the registry."""
        raise NotImplementedError

    def can(self, name: str) -> bool:
        """Return whether an action has a meaning here without an argument."""
        return name in MOVES | WAYS or hasattr(self, f"act_{name.replace('-', '_')}")

    def orders(self) -> Iterable[str]:
        """Return the sort orders that `sort` accepts here."""
        return ()

    def messages(self) -> Sequence[str]:
        """Return the names of the messages that the task has asked for."""
        return ()

    def steps(self) -> Sequence[str]:
        """Return the names of the task's kept steps."""
        return ()

    def act_command(self, line: str = "", wrong: str = "") -> None:
        """Open the command line; an invalid command is opened again with its error."""
        self.app.push_screen(
            CommandLine(lambda begun: completions(self, begun), self.ctx.app_state.history, line=line, wrong=wrong),
            self._run_line,
        )

    def _run_line(self, line: str | None) -> None:
        if line is None:
            return
        try:
            run_command(self, line)
        except WRONG as error:
            self.act_command(line, str(error))


def run_command(screen: CommandScreen, line: str) -> None:
    """Carry out a command. Raises `CommandError`, or its argument's error, before anything is done."""
    command = read_command(line)
    action = command.action
    _refuse_hidden(screen, action)
    if command.argument:
        handler: Callable[[str], None] | None = getattr(screen, f"with_{action.name.replace('-', '_')}", None)
        if handler is None:
            raise CommandError(f"{action.name} takes no argument on this screen")
        handler(command.argument)
        return
    scope = screen.scope
    if not action.scopes & {scope, "everywhere"}:
        places = " or ".join(_WHERE.get(scope, f"the {scope}") for scope in sorted(action.scopes))
        hint = f"; elsewhere {wanted(action)}" if action.takes is not None else ""
        raise CommandError(f"{action.name} works in {places}: go there first{hint}")
    if not screen.can(action.name):
        raise CommandError(wanted(action) or f"{action.name} does nothing on this screen")
    screen.act(action.name)


def _refuse_hidden(screen: CommandScreen, action: Action) -> None:
    if action.replay and not screen.ctx.model.is_recorded:
        raise CommandError(f"{action.name} controls a recording: start one with treadle watch --replay FILE")
    if action.local and screen.ctx.app_state.web:
        raise CommandError(
            f"{action.name} needs the terminal and files of the dashboard's machine: it is off in a browser"
        )
    if action.writes and (refusal := screen.ctx.executor.off()) is not None:
        raise CommandError(f"{action.name} is off: {refusal.reason}")


def completions(screen: CommandScreen, line: str) -> Sequence[Completion]:
    """Return the possible completions of a line on a screen."""
    here = list(screen.ctx.offered(screen.scope))
    elsewhere = [
        action for action in ACTIONS if action.takes is not None and action not in here and _is_possible(screen, action)
    ]
    return complete(line, [*here, *elsewhere], lambda takes, part: choices(screen, takes, part))


def _is_possible(screen: CommandScreen, action: Action) -> bool:
    try:
        _refuse_hidden(screen, action)
    except CommandError:
        return False
    return hasattr(screen, f"with_{action.name.replace('-', '_')}")


def choices(screen: CommandScreen, takes: Takes, part: str) -> Iterable[str]:
    """Return the possible completions of an argument."""
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
