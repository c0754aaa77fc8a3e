"""The `:` commands: every action of the registry by its name, with what it is about behind it."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from difflib import get_close_matches

from treadle_tui.core.verbs.action import ARGUMENTS, Action, Takes
from treadle_tui.core.verbs.actions import ACTIONS, BY_NAME

Choices = Callable[[Takes, str], Iterable[str]]
"""Gives what could stand where an argument is begun."""

SHORT = {"q": "quit", "q!": "quit", "h": "help"}
"""What fingers type."""


class CommandError(ValueError):
    """A command that can't be carried out: what is wrong, and what to write instead."""


@dataclass(frozen=True, slots=True)
class Command:
    """An action, and what was written behind its name; empty when nothing was."""

    action: Action
    argument: str = ""


@dataclass(frozen=True, slots=True)
class Completion:
    """A whole line that could be meant, and what it would do."""

    line: str
    help: str


def read_command(line: str) -> Command:
    """Return the command that a line means, with or without its colon; names may be written with spaces.

    Raises `CommandError` for a name that there is not, and for words behind a command that takes none.
    """
    text = line.strip().removeprefix(":").strip()
    if not text:
        raise CommandError("type a command, as filter status:failed; tab completes it")
    action, rest = _named(text)
    if rest and action.takes is None:
        raise CommandError(f'{action.name} takes nothing behind it: leave "{rest}" out')
    return Command(action, rest)


def _named(text: str) -> tuple[Action, str]:
    """Return the action whose name the line begins with, the longest one, and what follows it."""
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
        raise CommandError(f'"{first}" begins {_listed(action.name for action in begun)}: write more of it')
    close = get_close_matches(first, list(BY_NAME), n=1)
    meant = f'do you mean "{close[0]}"?' if close else "? shows all of them"
    raise CommandError(f'there is no command "{first}"; {meant}')


def wanted(action: Action) -> str:
    """Return what must stand behind a command, in words."""
    return f"{action.name} wants {ARGUMENTS[action.takes]}" if action.takes is not None else ""


def complete(line: str, offered: Iterable[Action], choices: Choices) -> list[Completion]:
    """Return the lines that a begun one could become, the likeliest first."""
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
    """Return the names that begin with a part, then those that hold it, whatever the case."""
    low = part.casefold()
    found = sorted(names)
    starting = [name for name in found if name.casefold().startswith(low)]
    return starting + [name for name in found if low in name.casefold() and name not in starting]


def _listed(names: Iterable[str]) -> str:
    *most, last = sorted(names)
    return f"{', '.join(most)} and {last}" if most else last


class History:
    """The lines that were typed, the newest last; each stands once."""

    def __init__(self, *, most: int = 200) -> None:
        self._lines: list[str] = []
        self._most = most
        self._at = 0
        self._draft = ""

    def add(self, line: str) -> None:
        """Keep a line."""
        if line in self._lines:
            self._lines.remove(line)
        self._lines = [*self._lines, line][-self._most :]
        self.leave()

    def leave(self) -> None:
        """Begin again at the end."""
        self._at, self._draft = len(self._lines), ""

    def older(self, now: str) -> str:
        """Return the line before; what is written `now` is kept for the way back."""
        if self._at >= len(self._lines):
            self._draft = now
        self._at = max(0, self._at - 1)
        return self._lines[self._at] if self._lines else now

    def newer(self, now: str) -> str:
        """Return the line behind, at last what was being written."""
        if self._at >= len(self._lines):
            return now
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else self._draft
