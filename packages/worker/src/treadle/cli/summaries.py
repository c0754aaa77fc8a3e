"""Groups that show a whole sentence about each of their commands, in help and in a shell's completions."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

LONGEST = 1000
"""The most characters of a sentence; click cuts longer ones, and by default those longer than a line."""


class SummaryGroup(click.Group):
    """A group whose commands' summaries are not cut."""

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the summary of a command: the first sentence of its help."""
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(LONGEST)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of the commands."""
        rows = [(name, self.summary(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return completions: commands, and options of the group."""
        from click.shell_completion import CompletionItem

        names = (name for name in self.list_commands(ctx) if name.startswith(incomplete))
        found = [CompletionItem(name, help=self.summary(ctx, name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]
