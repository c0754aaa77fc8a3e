"""What `:` commands mean on any screen: whether they are possible here, and who carries them out."""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from treadle import filters
from treadle_tui.core.actions import ACTIONS, Action, Takes
from treadle_tui.core.commands import CommandError, Completion, begun_with, complete, read_command, wanted

if TYPE_CHECKING:
    from treadle_tui.screens.commanded import Commanded

_PLACES = {
    "queues": "the queues' pane (1)",
    "tasks": "the tasks' pane (2)",
    "workers": "the workers' pane (3)",
    "detail": "a task's screen (enter)",
}


def obey(board: "Commanded", line: str) -> None:
    """Carry a command out. Raises `CommandError` when it can't be, before anything was done."""
    command = read_command(line)
    action = command.action
    _refuse_hidden(board, action)
    if command.argument:
        handler: Callable[[str], None] | None = getattr(board, f"with_{action.name.replace('-', '_')}", None)
        if handler is None:
            raise CommandError(f"{action.name} takes nothing behind it on this screen")
        handler(command.argument)
        return
    scope = board.scope
    if not action.scopes & {scope, "everywhere"}:
        places = " or ".join(_PLACES.get(scope, f"the {scope}") for scope in sorted(action.scopes))
        hint = f", or {wanted(action)}" if action.takes is not None else ""
        raise CommandError(f"{action.name} works in {places}: go there first{hint}")
    if not board.can(action.name):
        raise CommandError(wanted(action) or f"{action.name} means nothing on this screen")
    board.act(action.name)


def _refuse_hidden(board: "Commanded", action: Action) -> None:
    if action.replay and board.desk.shell.player is None:
        raise CommandError(f"{action.name} steers a recording: start one by treadle watch --replay FILE")
    if action.local and board.desk.shell.web:
        raise CommandError(f"{action.name} needs the terminal and the files of where the dashboard runs, not a browser")
    if action.writes and (refusal := board.desk.steering.off()) is not None:
        raise CommandError(f"{action.name} is off: {refusal.reason}")


def completions(board: "Commanded", line: str) -> Sequence[Completion]:
    """Return what a begun line could become on a screen."""
    here = list(board.desk.offered(board.scope))
    elsewhere = [
        action for action in ACTIONS if action.takes is not None and action not in here and _is_possible(board, action)
    ]
    return complete(line, [*here, *elsewhere], lambda takes, part: choices(board, takes, part))


def _is_possible(board: "Commanded", action: Action) -> bool:
    try:
        _refuse_hidden(board, action)
    except CommandError:
        return False
    return hasattr(board, f"with_{action.name.replace('-', '_')}")


def choices(board: "Commanded", takes: Takes, part: str) -> Iterable[str]:
    """Return what could stand where an argument is begun."""
    model, shell = board.desk.model, board.desk.shell
    match takes:
        case "queue":
            return begun_with(part, model.queue_rows())
        case "filter":
            completed = filters.complete(part, jobs=model.queue_rows())
            return [] if completed is None else [completed]
        case "order":
            return begun_with(part, board.orders())
        case "theme":
            return begun_with(part, shell.themes)
        case "context":
            return begun_with(part, shell.contexts)
        case "task":
            return [key for key in model.tasks.rows if part and part in key][:20]
        case "file" | "time" | "factor":
            return []
