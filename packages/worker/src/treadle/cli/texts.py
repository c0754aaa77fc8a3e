"""Text arguments: a shell passes on any bytes, and invalid UTF-8 can't be a name or a value.

An empty text comes from an unset shell variable, and is not a name or a path.
"""

import os
from typing import Any

import click


class _Text(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            return self._as_written(text, param, ctx)
        return text

    def _as_written(self, text: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Decode the argument's bytes as UTF-8, for a locale that only has ASCII; fail if they are invalid."""
        try:
            return os.fsencode(text).decode()
        except UnicodeError:
            self.fail(f"{text!r} is not valid UTF-8", param, ctx)


class _Name(_Text):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        if not name:
            self.fail(_EMPTY, param, ctx)
        return name


class GivenPath(click.Path):
    """A path that must not be empty, which would mean the current directory."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; fail for an empty one."""
        if value == "":
            self.fail(_EMPTY, param, ctx)
        return super().convert(value, param, ctx)


_EMPTY = "must not be empty: give a value, or leave it out"

_TEXT = _Text()

NAME = _Name()
"""The type of an option whose absence has a meaning of its own, which an unset shell variable must not get."""


def taking_texts(command: click.Command) -> click.Command:
    """Have a command, and its sub-commands, refuse text that is not UTF-8; paths may contain anything."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _TEXT
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        taking_texts(each)
    return command
