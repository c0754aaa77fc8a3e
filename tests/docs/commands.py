"""Writes docs/reference/commands.md from what the commands say of themselves: `python -m tests.docs.commands`."""

from collections.abc import Iterator
from pathlib import Path

import click

from treadle.cli.group import treadle

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"

BEGINNING = """# Commands

What `treadle --help` and the help of each command say. `python -m tests.docs.commands` writes this page anew.

A command ends with exit code 0 when it did what it was told, one that serves also when Ctrl-C or SIGTERM stops it; with
1 when something was refused, has failed or was not reached, and the standard error says what; with 2 when its command
line or a setting can't be meant, or it needs what is not installed; with 130 when Ctrl-C broke it off, and with 141
when nobody reads what it prints any more, as behind `| head`. A worker that can't stop code whose lease is over ends
its process with 75.

A shell completes commands and options by

```sh
eval "$(_TREADLE_COMPLETE=bash_source treadle)"    # in ~/.bashrc; in ~/.zshrc it is zsh_source
_TREADLE_COMPLETE=fish_source treadle | source     # in ~/.config/fish/config.fish
```
"""


def page() -> str:
    """Return the whole page."""
    context = click.Context(treadle, info_name="treadle", terminal_width=100, help_option_names=["-h", "--help"])
    return "\n".join([BEGINNING, *sections(treadle, context)])


def sections(command: click.Command, context: click.Context) -> Iterator[str]:
    """Give a section for a command, and those of its sub-commands."""
    if context.parent is not None:
        yield f"## {context.command_path}\n"
    yield f"```\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                yield from sections(child, click.Context(child, info_name=name, parent=context))


if __name__ == "__main__":
    PAGE.write_text(page())
