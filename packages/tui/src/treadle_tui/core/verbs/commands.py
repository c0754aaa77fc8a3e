"""The `:` commands: every action of the registry by its name, followed by its argument."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from treadle_tui.core.verbs.action import ARGUMENTS, Action, Takes
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME

Choices = Callable[[Takes, str], Iterable[str]]
"""Returns the possible completions of a partly typed argument."""

SHORT = {"q": "quit", "q!": "quit", "h": "help"}
"""Short forms from other programs, such as vim."""


class CommandError(ValueError):
    """An invalid command: what is wrong, and what to type instead."""


@dataclass(frozen=True, slots=True)
class Command:
    """An action and its argument, empty if there is none."""

    action: Action
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A completed line, and what it would do."""

    line: str
    help: str


def read_command(line: str) -> Command:
    """Parse a command line, with or without its colon; names may be written with spaces.

    Raises `CommandError` for an unknown name, and for an argument to a command that takes none.
    """
    text = line.strip().removeprefix(":").strip()
    if not text:
        raise CommandError("type a command, such as filter status:failed; tab completes it")
    action, rest = _named(text)
    if rest and action.takes is None:
        raise CommandError(f'{action.name} takes no argument: remove "{rest}"')
    return Command(action, rest)


def _named(text: str) -> tuple[Action, str]:
    """Return the action with the longest name that the line starts with, and the rest of the line."""
    words = list(re.finditer(r"\S+", text))
    for count in range(min(len(words), 3), 0, -1):
        name = "-".join(word[0] for word in words[:count])
        name = SHORT.get(name, name)
        if name in BY_NAME:
            return BY_NAME[name], text[words[count - 1].end() :].strip()
    first = words[0][0]
    begun = [action for action in ACTIONS if action.name.startswith(first)]
    if len(begun) == 1:
        return begun[0], text[words[0].end() :].strip()
    if begun:
        raise CommandError(f'"{first}" could be {_listed(action.name for action in begun)}: type more of it')
    close = get_close_matches(first, list(BY_NAME), n=1)
    meant = f'did you mean "{close[0]}"?' if close else "? shows all of them"
    raise CommandError(f'unknown command "{first}": {meant}')


def wanted(action: Action) -> str:
    """Return a sentence about the argument that a command needs."""
    return f"{action.name} needs {ARGUMENTS[action.takes]}" if action.takes is not None else ""


def complete(line: str, offered: Iterable[Action], choices: Choices) -> list[Completion]:
    """Return the possible completions of a line, likeliest first."""
    text = line.lstrip().removeprefix(":").lstrip()
    known = {action.name: action for action in offered}
    for name in sorted(known, key=len, reverse=True):
        action = known[name]
        for written in (name, name.replace("-", " ")):
            if action.takes is not None and text.startswith(f"{written} "):
                part = text[len(written) :].lstrip()
                return [
                    Completion(f"{written} {choice}", ARGUMENTS[action.takes])
                    for choice in choices(action.takes, part)
                    if choice != part
                ]
    begun = text.strip().replace(" ", "-")
    starting = [action for action in known.values() if action.name.startswith(begun)]
    inside = [action for action in known.values() if begun in action.name and action not in starting]
    return [Completion(_line(action), action.help) for action in (*starting, *inside)]


def _line(action: Action) -> str:
    return f"{action.name} " if action.takes is not None else action.name


def begun_with(part: str, names: Iterable[str]) -> list[str]:
    """Return the names that start with a part, then those that contain it, ignoring case."""
    low = part.casefold()
    found = sorted(names)
    starting = [name for name in found if name.casefold().startswith(low)]
    return starting + [name for name in found if low in name.casefold() and name not in starting]


def _listed(names: Iterable[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} or {last}" if most else last


class History:
    """The lines typed so far, newest last, without duplicates."""

    def __init__(self, *, most: int = 200) -> None:
        self._lines: list[str] = []
        self._most = most
        self._at = 0
        self._draft = ""

    def add(self, line: str) -> None:
        """Add a line as the newest."""
        if line in self._lines:
            self._lines.remove(line)
        self._lines = [*self._lines, line][-self._most :]
        self.leave()

    def leave(self) -> None:
        """Go back to the end, where a new line is typed."""
        self._at, self._draft = len(self._lines), ""

    def older(self, now: str) -> str:
        """Return the previous line; the text `now` is kept to come back to."""
        if self._at >= len(self._lines):
            self._draft = now
        self._at = max(0, self._at - 1)
        return self._lines[self._at] if self._lines else now

    def newer(self, now: str) -> str:
        """Return the next line, and after the last one the text that was being typed."""
        if self._at >= len(self._lines):
            return now
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else self._draft
