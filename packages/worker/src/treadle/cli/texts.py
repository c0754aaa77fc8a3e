"""Arguments that are texts: a shell passes on any bytes, and what is no UTF-8 is nobody's name or value.

An empty one is a variable of a shell's that is not set, and no name and no path.
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
        """Return the text that its bytes are, where the locale has only ASCII; fail where they are none."""
        try:
            return os.fsencode(text).decode()
        except UnicodeError:
            self.fail(f"{text!r} is no UTF-8", param, ctx)


class _Name(_Text):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = super().convert(value, param, ctx)
        if not name:
            self.fail(_EMPTY, param, ctx)
        return name


class GivenPath(click.Path):
    """A path, which would be the current directory if it were empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path; fail for an empty one."""
        if value == "":
            self.fail(_EMPTY, param, ctx)
        return super().convert(value, param, ctx)


_EMPTY = "it is empty: give one, or leave it out"

_TEXT = _Text()

NAME = _Name()
"""The type of an option that means something else when it is left out: an empty variable of a shell's is not that."""


def taking_texts(command: click.Command) -> click.Command:
    """Have a command, and what it is a group of, refuse texts that are no UTF-8; a file may be called anything."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _TEXT
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        taking_texts(each)
    return command
