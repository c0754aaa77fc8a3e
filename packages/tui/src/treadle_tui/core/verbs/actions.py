"""The registry of actions, from which keys, footer, help, palette and documentation are generated."""

from collections.abc import Iterator

from treadle_tui.core.verbs.action import Action, Takes
from treadle_tui.core.verbs.scopes import LISTS, Scope, on
from treadle_tui.core.verbs.steering_actions import STEERING


def _move(name: str, key: str, label: str, said: str) -> Action:
    """Return an action that moves the highlight, or the text."""
    return Action(name, key, label, said, on(*LISTS, "detail"), footer=False)


def _way(name: str, key: str, said: str, *, takes: Takes | None = None) -> Action:
    """Return an action that goes to the screen or pane of the same name."""
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
    _way("tasks", "2", "Go to the tasks of the highlighted or named queue.", takes="queue"),
    _way("workers", "3", "Go to the workers."),
    _way("targets", "4", "Go to the targets: what holds each, and what waits for it."),
    _way("schedules", "5", "Go to the schedules: the next and last task of each, and which are paused."),
    _way("events", "6", "Go to the events: each transition as it happens."),
    _way("failures", "7", "Go to the failures, grouped by error and place."),
    _way("limits", "8", "Go to the limits: how much of each is used, and how many tasks wait."),
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
        "Open the highlighted row: a queue's or worker's tasks, a task, a target's holder, a schedule's last task,"
        " a limit's keys.",
        on(*LISTS),
        takes="task",
    ),
    Action(
        "back",
        "escape",
        "back",
        "Go back: clear the marks or the filter, or close the screen.",
        on("everywhere"),
        footer=False,
    ),
    Action("mark", "space", "mark", "Mark or unmark the task; actions then apply to the marked tasks.", on("tasks")),
    Action(
        "mark-all",
        "asterisk",
        "mark all",
        "Mark every task that matches the filter, loaded or not; if all are marked, unmark them.",
        on("tasks"),
        footer=False,
    ),
    *STEERING,
    Action(
        "dismiss",
        "d",
        "dismiss",
        "Hide the alert until it comes again or gets worse.",
        on("attention"),
    ),
    Action(
        "undo",
        "u",
        "undo",
        "Undo the last pause, resume, edit or cancel within five seconds, for tasks that nobody has changed since.",
        on("everywhere"),
        writes=True,
        footer=False,
    ),
    Action(
        "report",
        "R",
        "report",
        "Show what the last action did to each task.",
        on("everywhere"),
        footer=False,
    ),
    Action(
        "sort",
        "s",
        "sort",
        "Change the order: queues by name, pending, oldest, failed or rate; tasks by position, age or last change.",
        on("queues", "tasks"),
        takes="order",
    ),
    Action(
        "wide",
        "w",
        "wide",
        "Show whole job names, or whole payloads, instead of some of the other columns.",
        on("queues", "tasks"),
        footer=False,
    ),
    Action(
        "freeze",
        "z",
        "freeze",
        "Freeze the list, or let it continue; changes are counted while it is frozen.",
        on("tasks", "events", "logs"),
    ),
    Action(
        "follow",
        "F",
        "follow",
        "Follow: keep the highlight on the first or newest row; in a task's log, on its end.",
        on("tasks", "events", "logs", "detail"),
        footer=False,
    ),
    Action("left", "left,h", "left", "Scroll long lines to the left.", on("detail"), footer=False),
    Action("right", "right,l", "right", "Scroll long lines to the right.", on("detail"), footer=False),
    Action("next-sheet", "tab", "sheets", "Go to the task's next sheet.", on("detail")),
    Action("last-sheet", "shift+tab", "prev sheet", "Go to the previous sheet.", on("detail"), footer=False),
    Action(
        "fold", "enter,space", "fold", "Unfold or fold the block that begins on the line.", on("detail"), footer=False
    ),
    Action("wrap", "w", "wrap", "Wrap long lines, or cut them off.", on("detail")),
    Action(
        "next-match",
        "n",
        "next",
        "Go to the next match.",
        on("detail"),
        footer=False,
    ),
    Action("last-match", "N", "last", "Go to the previous match.", on("detail"), footer=False),
    Action(
        "flow",
        "T",
        "flow",
        "Show the task's flow, or the named one, as a tree.",
        on("detail"),
        takes="flow",
    ),
    *_MOVES,
    Action(
        "filter",
        "slash",
        "filter",
        "Filter the list, for example status:pending,running target:cam-1 some text. In a task: search the sheet.",
        on("everywhere"),
        takes="filter",
    ),
    Action(
        "view",
        "V",
        "view",
        "Show a saved view: a filter from the configuration file, for all queues unless it names one.",
        on("everywhere"),
        footer=False,
        takes="view",
    ),
    Action(
        "retry-failed",
        "f",
        "retry failed",
        "Retry all failed tasks of the queue, or of all queues.",
        on("queues"),
        writes=True,
        footer=False,
    ),
    Action(
        "resolve",
        "S",
        "resolve",
        "Settle all failed tasks of the group as completed by hand.",
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
    Action("command", "colon", "command", "Type a command and its argument.", on("everywhere")),
    Action("palette", "ctrl+p", "palette", "Find an action by its name.", on("everywhere")),
    Action(
        "logs",
        "l",
        "logs",
        "Show the logs of the listed tasks, the queue or the worker as one live log.",
        on("queues", "tasks", "workers"),
        footer=False,
    ),
    Action(
        "span",
        "t",
        "charts",
        "Switch the charts to five minutes, an hour or a day, as far back as the server has measured.",
        on("everywhere"),
        footer=False,
        takes="span",
    ),
    Action(
        "theme",
        "",
        "theme",
        "Switch to the next theme, or to the named one.",
        on("everywhere"),
        footer=False,
        takes="theme",
    ),
    Action(
        "context",
        "",
        "context",
        "Switch to another server from the configuration file, or list them.",
        on("everywhere"),
        footer=False,
        takes="context",
    ),
    Action("rewind", "J", "back 10s", "Go back ten seconds in the recording.", on("everywhere"), replay=True),
    Action("play", "K", "play or stop", "Stop or continue the recording.", on("everywhere"), replay=True),
    Action("skip", "L", "on 10s", "Go forward ten seconds in the recording.", on("everywhere"), replay=True),
    Action(
        "seek",
        "",
        "seek",
        "Go to a moment in the recording: 1m30 from its start, or +10 or -1m from here.",
        on("everywhere"),
        footer=False,
        takes="time",
        replay=True,
    ),
    Action(
        "speed",
        "",
        "speed",
        "Play the recording faster or slower: 8 is eight times as fast.",
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
        "Suspend the dashboard; fg in the shell brings it back.",
        on("everywhere"),
        footer=False,
        local=True,
    ),
    Action(
        "quit", "q,ctrl+q", "quit", "Quit the dashboard; tasks and workers carry on.", on("everywhere"), footer=False
    ),
)
"""Every action, in the order of the footer and the help."""

BY_NAME = {action.name: action for action in ACTIONS}

MOVES = frozenset(action.name for action in _MOVES)
"""The actions that lists and texts carry out themselves."""

SIDEWAYS = {"left": -1, "right": 1}
"""The sideways moves, which texts carry out themselves, with their direction."""

WAYS = frozenset(action.name for action in _WAYS)
"""The actions that go to the pane or screen of their name."""


def offered(scope: Scope, *, read_only: bool, replay: bool = False, web: bool = False) -> Iterator[Action]:
    """Yield the actions that are available here: the scope's own, then those that work everywhere.

    `read_only` leaves out those that write, and `web` those that need this machine's terminal or files. Those that
    control a replay are only included with `replay`.
    """
    for wanted in dict.fromkeys((scope, "everywhere")):
        for action in ACTIONS:
            hidden = (read_only and action.writes) or (action.replay and not replay) or (action.local and web)
            if wanted in action.scopes and not hidden:
                yield action
