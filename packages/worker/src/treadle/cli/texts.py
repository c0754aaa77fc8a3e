"""Arguments that are texts: a shell passes on any bytes, and what is no UTF-8 is nobody's name or value."""

from typing import Any

import click


class _Text(click.types.StringParamType):
    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail(f"{text!r} is no UTF-8", param, ctx)
        return text


_TEXT = _Text()


def taking_texts(command: click.Command) -> click.Command:
    """Have a command, and what it is a group of, refuse texts that are no UTF-8; a file may be called anything."""
    for param in command.params:
        if param.type is click.STRING:
            param.type = _TEXT
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        taking_texts(each)
    return command
