"""The one registry of actions: keys, footer, help, palette and documentation are all made of it."""

from collections.abc import Iterator

from treadle_tui.core.verbs.action import Action, Takes
from treadle_tui.core.verbs.scopes import LISTS, Scope, on
from treadle_tui.core.verbs.steering_actions import STEERING


def _move(name: str, key: str, label: str, said: str) -> Action:
    """Return a move of the highlight, or of what is read."""
    return Action(name, key, label, said, on(*LISTS, "detail"), footer=False)


def _way(name: str, key: str, said: str, *, takes: Takes | None = None) -> Action:
    """Return the way to a screen, which is called like it."""
    return Action(name, key, name, said, on("everywhere"), footer=False, takes=takes)


_MOVES = (
    _move("up", "up,k", "up", "Go one row up."),
    _move("down", "down,j", "down", "Go one row down."),
    _move("page-up", "pageup,ctrl+u", "page up", "Go one page up."),
    _move("page-down", "pagedown,ctrl+d", "page down", "Go one page down."),
    _move("top", "g,home", "top", "Go to the first row."),
    _move("bottom", "G,end", "bottom", "Go to the last row."),
)

_WAYS = (
    _way("queues", "1", "Go to the queues."),
    _way("tasks", "2", "Go to the tasks of the highlighted queue, or of the one that is named.", takes="queue"),
    _way("workers", "3", "Go to the workers."),
    _way("targets", "4", "Go to the targets: what holds each, and who waits."),
    _way("schedules", "5", "Go to the schedules: next, last, paused."),
    _way("events", "6", "Go to the events: each transition as it happens."),
    _way("failures", "7", "Go to the failures, in groups by what failed and where."),
    _way("limits", "8", "Go to the limits: what is used, and who waits."),
    _way(
        "attention",
        "exclamation_mark",
        "Go to what needs attention: starved queues, lost workers, held targets, late schedules, stuck tasks.",
    ),
)

ACTIONS: tuple[Action, ...] = (
    Action(
        "open",
        "enter",
        "open",
        "Open what is highlighted: a queue's or worker's tasks, a task, a target's holder, a schedule's last task,"
        " a limit's keys.",
        on(*LISTS),
        takes="task",
    ),
    Action(
        "back",
        "escape",
        "back",
        "Go back: close the screen, leave the filter, forget the marks.",
        on("everywhere"),
        footer=False,
    ),
    Action(
        "mark", "space", "mark", "Mark the task, or take its mark away; actions mean the marked tasks.", on("tasks")
    ),
    Action(
        "mark-all",
        "asterisk",
        "mark all",
        "Mark every task that the filter means, loaded or not; or none.",
        on("tasks"),
        footer=False,
    ),
    *STEERING,
    Action(
        "dismiss",
        "d",
        "dismiss",
        "Leave it out until it comes again, or grows worse.",
        on("attention"),
    ),
    Action(
        "undo",
        "u",
        "undo",
        "Undo the last pause, resume, edit or cancel, within five seconds, where nobody has touched the task since.",
        on("everywhere"),
        writes=True,
        footer=False,
    ),
    Action(
        "report",
        "R",
        "report",
        "Look through what the last action did to each task.",
        on("everywhere"),
        footer=False,
    ),
    Action(
        "sort",
        "s",
        "sort",
        "Sort by something else: queues by name, pending, oldest, failed, rate; tasks by position, age, change.",
        on("queues", "tasks"),
        takes="order",
    ),
    Action(
        "wide",
        "w",
        "wide",
        "Show the job's whole name, or the whole payload, at the cost of other columns.",
        on("queues", "tasks"),
        footer=False,
    ),
    Action(
        "freeze",
        "z",
        "freeze",
        "Let the list stand still, or go on; what changes meanwhile is counted.",
        on("tasks", "events", "logs"),
    ),
    Action(
        "follow",
        "F",
        "follow",
        "Follow: the highlight stays with the newest, or with what comes first; in a task's log with its end.",
        on("tasks", "events", "logs", "detail"),
        footer=False,
    ),
    Action("left", "left,h", "left", "Show what stands further left in long lines.", on("detail"), footer=False),
    Action("right", "right,l", "right", "Show what stands further right in long lines.", on("detail"), footer=False),
    Action("next-sheet", "tab", "sheets", "Turn to the task's next sheet.", on("detail")),
    Action("last-sheet", "shift+tab", "last sheet", "Turn to the sheet before.", on("detail"), footer=False),
    Action("fold", "enter,space", "fold", "Unfold or fold what begins in the line.", on("detail"), footer=False),
    Action("wrap", "w", "wrap", "Wrap lines that are too long, or cut them off.", on("detail")),
    Action(
        "next-match",
        "n",
        "next",
        "Go to the next place of what was looked for.",
        on("detail"),
        footer=False,
    ),
    Action("last-match", "N", "last", "Go to the place before.", on("detail"), footer=False),
    Action(
        "flow",
        "T",
        "flow",
        "Show the flow that the task is of, or the one that is named, as a tree.",
        on("detail"),
        takes="flow",
    ),
    *_MOVES,
    Action(
        "filter",
        "slash",
        "filter",
        "Filter the list: status:pending,running target:cam-1 some text. In a task: find in the sheet.",
        on("everywhere"),
        takes="filter",
    ),
    Action(
        "view",
        "V",
        "view",
        "Show a saved view: a filter by its name in the configuration file, for every queue unless it names one.",
        on("everywhere"),
        footer=False,
        takes="view",
    ),
    Action(
        "retry-failed",
        "f",
        "retry failed",
        "Retry all failed tasks of the queue, or of every one.",
        on("queues"),
        writes=True,
        footer=False,
    ),
    Action(
        "resolve",
        "S",
        "resolve",
        "Settle all failed tasks of the group, as completed by hand.",
        on("failures"),
        writes=True,
    ),
    *_WAYS,
    Action(
        "copy",
        "y",
        "copy",
        "Copy the task's id, or the queue's or worker's name, to the clipboard.",
        on(*LISTS, "detail"),
    ),
    Action("command", "colon", "command", "Type a command, with what it is about behind it.", on("everywhere")),
    Action("palette", "ctrl+p", "palette", "Find an action by its name.", on("everywhere")),
    Action(
        "logs",
        "l",
        "logs",
        "Read the logs of the listed tasks, of the queue or of the worker as one, as they are written.",
        on("queues", "tasks", "workers"),
        footer=False,
    ),
    Action(
        "span",
        "t",
        "charts",
        "Draw the charts over five minutes, an hour or a day, as far as the server has measured.",
        on("everywhere"),
        footer=False,
        takes="span",
    ),
    Action(
        "theme",
        "",
        "theme",
        "Show it in other colours: the next theme, or the one that is named.",
        on("everywhere"),
        footer=False,
        takes="theme",
    ),
    Action(
        "context",
        "",
        "context",
        "Go to another server of the configuration file, or tell which there are.",
        on("everywhere"),
        footer=False,
        takes="context",
    ),
    Action("rewind", "J", "back 10s", "Show the recording from ten seconds before.", on("everywhere"), replay=True),
    Action("play", "K", "play or stop", "Stop the recording, or let it go on.", on("everywhere"), replay=True),
    Action("skip", "L", "on 10s", "Show the recording from ten seconds later.", on("everywhere"), replay=True),
    Action(
        "seek",
        "",
        "seek",
        "Show the recording from a moment: 1m30 from its start, or +10 or -1m from here.",
        on("everywhere"),
        footer=False,
        takes="time",
        replay=True,
    ),
    Action(
        "speed",
        "",
        "speed",
        "Show the recording faster or slower: 8 is eight times as fast.",
        on("everywhere"),
        footer=False,
        takes="factor",
        replay=True,
    ),
    Action("help", "question_mark", "help", "Show every key.", on("everywhere")),
    Action(
        "suspend",
        "ctrl+z",
        "to the shell",
        "Go to the shell; its fg brings the dashboard back.",
        on("everywhere"),
        footer=False,
        local=True,
    ),
    Action("quit", "q,ctrl+q", "quit", "Leave the dashboard; tasks and workers go on.", on("everywhere"), footer=False),
)
"""Every action, in the order of the footer and the help."""

BY_NAME = {action.name: action for action in ACTIONS}

MOVES = frozenset(action.name for action in _MOVES)
"""What a list or a text carries out by itself."""

SIDEWAYS = {"left": -1, "right": 1}
"""What a text carries out by itself, and its direction."""

WAYS = frozenset(action.name for action in _WAYS)
"""What leads to the pane or screen of its name."""


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
