"""The one registry of actions: keys, footer, help, palette and documentation are all made of it."""

from collections.abc import Iterator
from typing import get_args

from treadle_tui.core.verbs.action import Action
from treadle_tui.core.verbs.scopes import Scope


def _on(*scopes: Scope) -> frozenset[Scope]:
    return frozenset(scopes)


_LISTS: tuple[Scope, ...] = tuple(scope for scope in get_args(Scope) if scope not in {"detail", "everywhere"})

ACTIONS: tuple[Action, ...] = (
    Action(
        "open",
        "enter",
        "open",
        "Open what is highlighted: a queue's or worker's tasks, a task, a target's holder, a schedule's last task.",
        _on(*_LISTS),
        takes="task",
    ),
    Action(
        "back",
        "escape",
        "back",
        "Go back: close the screen, leave the filter, forget the marks.",
        _on("everywhere"),
        footer=False,
    ),
    Action(
        "mark", "space", "mark", "Mark the task, or take its mark away; actions mean the marked tasks.", _on("tasks")
    ),
    Action(
        "mark-all",
        "asterisk",
        "mark all",
        "Mark every task that the filter means, loaded or not; or none.",
        _on("tasks"),
        footer=False,
    ),
    Action(
        "cancel",
        "c",
        "cancel",
        "Cancel the tasks; running ones after a question. Of a target its holder is meant.",
        _on("tasks", "targets", "failures", "detail"),
        writes=True,
    ),
    Action(
        "pause",
        "p",
        "pause",
        "Pause the tasks; a running one when its worker has stopped it.",
        _on("tasks", "targets", "detail"),
        writes=True,
    ),
    Action(
        "resume",
        "r",
        "resume",
        "Resume paused and failed tasks; run completed and cancelled ones again.",
        _on("tasks", "targets", "failures", "detail"),
        writes=True,
    ),
    Action(
        "edit",
        "e",
        "edit",
        "Edit the task in $EDITOR while it waits; when it is over, submit a changed copy.",
        _on("tasks", "detail"),
        writes=True,
        local=True,
    ),
    Action(
        "editor",
        "o",
        "editor",
        "Read the task in $EDITOR; it stays as it is.",
        _on("tasks", "detail"),
        footer=False,
        local=True,
    ),
    Action("pager", "v", "pager", "Read the task in $PAGER.", _on("tasks", "detail"), footer=False, local=True),
    Action(
        "export",
        "x",
        "export",
        "Write the list, or the marked tasks of it, to a JSON file.",
        _on(*_LISTS, "detail"),
        footer=False,
        takes="file",
        local=True,
    ),
    Action(
        "pause-queue",
        "p",
        "pause",
        "Pause the queue: nothing is claimed from it.",
        _on("queues"),
        writes=True,
        takes="queue",
    ),
    Action("resume-queue", "r", "resume", "Resume the paused queue.", _on("queues"), writes=True, takes="queue"),
    Action(
        "pause-schedule",
        "p",
        "pause",
        "Pause the schedule: it puts nothing in until it is resumed.",
        _on("schedules"),
        writes=True,
    ),
    Action(
        "resume-schedule",
        "r",
        "resume",
        "Let the paused schedule go on, with its next tick from now.",
        _on("schedules"),
        writes=True,
    ),
    Action(
        "run-schedule",
        "n",
        "run now",
        "Put the schedule's task in now; its ticks stay as they are.",
        _on("schedules"),
        writes=True,
    ),
    Action(
        "cancel-flow",
        "c",
        "cancel",
        "Cancel all tasks of the flow that have not ended; running ones after a question.",
        _on("flow"),
        writes=True,
    ),
    Action(
        "pause-flow",
        "p",
        "pause",
        "Pause all tasks of the flow that wait or run.",
        _on("flow"),
        writes=True,
    ),
    Action("resume-flow", "r", "resume", "Resume all paused tasks of the flow.", _on("flow"), writes=True),
    Action(
        "rerun-failed",
        "f",
        "rerun failed",
        "Run again what failed of the flow, and put back what was cancelled because of it.",
        _on("flow"),
        writes=True,
    ),
    Action(
        "remove-worker",
        "D",
        "remove",
        "Forget the lost worker.",
        _on("workers", "attention"),
        writes=True,
        footer=False,
    ),
    Action(
        "dismiss",
        "d",
        "dismiss",
        "Leave it out until it comes again, or grows worse.",
        _on("attention"),
    ),
    Action(
        "undo",
        "u",
        "undo",
        "Undo the last pause, resume, edit or cancel, within five seconds, where nobody has touched the task since.",
        _on("everywhere"),
        writes=True,
        footer=False,
    ),
    Action(
        "report",
        "R",
        "report",
        "Look through what the last action did to each task.",
        _on("everywhere"),
        footer=False,
    ),
    Action(
        "sort",
        "s",
        "sort",
        "Sort by something else: queues by name, pending, oldest, failed, rate; tasks by position, age, change.",
        _on("queues", "tasks"),
        takes="order",
    ),
    Action(
        "wide",
        "w",
        "wide",
        "Show the job's whole name, or the whole payload, at the cost of other columns.",
        _on("queues", "tasks"),
        footer=False,
    ),
    Action(
        "freeze",
        "z",
        "freeze",
        "Let the list stand still, or go on; what changes meanwhile is counted.",
        _on("tasks", "events", "logs"),
    ),
    Action(
        "follow",
        "F",
        "follow",
        "Follow: the highlight stays with the newest, or with what comes first; in a task's log with its end.",
        _on("tasks", "events", "logs", "detail"),
        footer=False,
    ),
    Action("next-sheet", "tab", "sheets", "Turn to the task's next sheet.", _on("detail")),
    Action("last-sheet", "shift+tab", "last sheet", "Turn to the sheet before.", _on("detail"), footer=False),
    Action("fold", "enter,space", "fold", "Unfold or fold what begins in the line.", _on("detail"), footer=False),
    Action("wrap", "w", "wrap", "Wrap lines that are too long, or cut them off.", _on("detail")),
    Action(
        "next-match",
        "n",
        "next",
        "Go to the next place of what was looked for.",
        _on("detail"),
        footer=False,
    ),
    Action("last-match", "N", "last", "Go to the place before.", _on("detail"), footer=False),
    Action(
        "flow",
        "T",
        "flow",
        "Show the flow that the task is of, or the one that is named, as a tree.",
        _on("detail"),
        takes="flow",
    ),
    Action("up", "up,k", "up", "Go one row up.", _on(*_LISTS, "detail"), footer=False),
    Action("down", "down,j", "down", "Go one row down.", _on(*_LISTS, "detail"), footer=False),
    Action("page-up", "pageup,ctrl+u", "page up", "Go one page up.", _on(*_LISTS, "detail"), footer=False),
    Action("page-down", "pagedown,ctrl+d", "page down", "Go one page down.", _on(*_LISTS, "detail"), footer=False),
    Action("top", "g,home", "top", "Go to the first row.", _on(*_LISTS, "detail"), footer=False),
    Action("bottom", "G,end", "bottom", "Go to the last row.", _on(*_LISTS, "detail"), footer=False),
    Action(
        "filter",
        "slash",
        "filter",
        "Filter the list: status:pending,running target:cam-1 some text. In a task: find in the sheet.",
        _on("everywhere"),
        takes="filter",
    ),
    Action(
        "view",
        "V",
        "view",
        "Show a saved view: a filter by its name in the configuration file, for every queue unless it names one.",
        _on("everywhere"),
        footer=False,
        takes="view",
    ),
    Action(
        "retry-failed",
        "f",
        "retry failed",
        "Retry all failed tasks of the queue, or of every one.",
        _on("queues"),
        writes=True,
        footer=False,
    ),
    Action(
        "resolve",
        "S",
        "resolve",
        "Settle all failed tasks of the group, as completed by hand.",
        _on("failures"),
        writes=True,
    ),
    Action("queues", "1", "queues", "Go to the queues.", _on("everywhere"), footer=False),
    Action(
        "tasks",
        "2",
        "tasks",
        "Go to the tasks of the highlighted queue, or of the one that is named.",
        _on("everywhere"),
        footer=False,
        takes="queue",
    ),
    Action("workers", "3", "workers", "Go to the workers.", _on("everywhere"), footer=False),
    Action(
        "targets", "4", "targets", "Go to the targets: what holds each, and who waits.", _on("everywhere"), footer=False
    ),
    Action("schedules", "5", "schedules", "Go to the schedules: next, last, paused.", _on("everywhere"), footer=False),
    Action(
        "events", "6", "events", "Go to the events: each transition as it happens.", _on("everywhere"), footer=False
    ),
    Action(
        "failures",
        "7",
        "failures",
        "Go to the failures, in groups by what failed and where.",
        _on("everywhere"),
        footer=False,
    ),
    Action(
        "attention",
        "exclamation_mark",
        "attention",
        "Go to what wants a look: starved queues, lost workers, held targets, late schedules, stuck tasks.",
        _on("everywhere"),
        footer=False,
    ),
    Action(
        "copy",
        "y",
        "copy",
        "Copy the task's id, or the queue's or worker's name, to the clipboard.",
        _on(*_LISTS, "detail"),
    ),
    Action("command", "colon", "command", "Type a command, with what it is about behind it.", _on("everywhere")),
    Action("palette", "ctrl+p", "palette", "Find an action by its name.", _on("everywhere")),
    Action(
        "logs",
        "l",
        "logs",
        "Read the logs of the listed tasks, of the queue or of the worker as one, as they are written.",
        _on("queues", "tasks", "workers"),
        footer=False,
    ),
    Action(
        "span",
        "t",
        "charts",
        "Draw the charts over five minutes, an hour or a day, as far as the server has measured.",
        _on("everywhere"),
        footer=False,
        takes="span",
    ),
    Action(
        "theme",
        "",
        "theme",
        "Show it in other colours: the next theme, or the one that is named.",
        _on("everywhere"),
        footer=False,
        takes="theme",
    ),
    Action(
        "context",
        "",
        "context",
        "Go to another server of the configuration file, or tell which there are.",
        _on("everywhere"),
        footer=False,
        takes="context",
    ),
    Action("rewind", "J", "back 10s", "Show the recording from ten seconds before.", _on("everywhere"), replay=True),
    Action("play", "K", "play or stop", "Stop the recording, or let it go on.", _on("everywhere"), replay=True),
    Action("skip", "L", "on 10s", "Show the recording from ten seconds later.", _on("everywhere"), replay=True),
    Action(
        "seek",
        "",
        "seek",
        "Show the recording from a moment: 1m30 from its start, or +10 or -1m from here.",
        _on("everywhere"),
        footer=False,
        takes="time",
        replay=True,
    ),
    Action(
        "speed",
        "",
        "speed",
        "Show the recording faster or slower: 8 is eight times as fast.",
        _on("everywhere"),
        footer=False,
        takes="factor",
        replay=True,
    ),
    Action("help", "question_mark", "help", "Show every key.", _on("everywhere")),
    Action(
        "quit", "q,ctrl+q", "quit", "Leave the dashboard; tasks and workers go on.", _on("everywhere"), footer=False
    ),
)
"""Every action, in the order of the footer and the help."""

BY_NAME = {action.name: action for action in ACTIONS}


def of_scope(scope: Scope) -> Iterator[Action]:
    """Yield the actions whose keys work in a pane or screen and not everywhere."""
    return (action for action in ACTIONS if scope in action.scopes)


def offered(scope: Scope, *, read_only: bool, replay: bool = False, web: bool = False) -> Iterator[Action]:
    """Yield what can be done here at all: the scope's own actions, then those that work everywhere.

    `read_only` leaves out what writes, `web` what needs this machine's terminal or files; what steers a recording is
    there in its `replay` alone.
    """
    for wanted in dict.fromkeys((scope, "everywhere")):
        for action in ACTIONS:
            hidden = (read_only and action.writes) or (action.replay and not replay) or (action.local and web)
            if wanted in action.scopes and not hidden:
                yield action
