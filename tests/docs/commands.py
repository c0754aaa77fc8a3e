"""Writes docs/reference/commands.md from the help of the commands: `python -m tests.docs.commands`."""

from collections.abc import Iterator
from pathlib import Path

import click

from treadle.cli.group import treadle

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"

BEGINNING = """# Commands

The help of `treadle` and of each command. `python -m tests.docs.commands` regenerates this page.

A command exits with 0 when it did what it was told; one that serves, also when Ctrl-C or SIGTERM stops it. It exits
with 1 when something was refused, failed or could not be reached, and the standard error says what; with 2 when its
command line or a setting is invalid, or something that it needs is not installed; with 130 when Ctrl-C interrupted it;
and with 141 when its output is no longer read, as in `| head`. A worker that can't stop code whose lease is over ends
its process with 75. A further SIGTERM after a server or worker has stopped, when all is stored and only its process is
left, ends that at once: threads of the tasks may hold it up.

A shell completes commands and options with

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
