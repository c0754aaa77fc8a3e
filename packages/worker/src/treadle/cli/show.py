"""How the command prints: tables for people, JSON for programs."""

import asyncio
import json
import os
import sys
import unicodedata
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from pydantic import BaseModel

from treadle.cli.clock import server_time
from treadle.cli.summaries import SummaryGroup
from treadle.wire.pages import MOST_OF_PAGE, PAGE
from treadle.wire.sealed import ENCRYPTED, seal_of
from treadle.wire.sealed import shown as readable
from treadle.wire.shown import clean, clean_json, clean_lines

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from treadle.client.client import Client
    from treadle.wire.pages import Page

T = TypeVar("T")

FOLLOWING = 60.0
"""Seconds for which a server may be unreachable while a task is followed."""

as_json = click.option("--json", "is_json", is_flag=True, help="Print JSON.")
from_room = click.option("--room", default="@global", show_default=True, help="The room to look from.")
at_most = click.option(
    "--limit", type=click.IntRange(1, MOST_OF_PAGE), default=PAGE, show_default=True, help="At most this many rows."
)


class ListedGroup(SummaryGroup):
    """A group that lists when no sub-command is given: `treadle limits --json` is `treadle limits list --json`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line; if it begins with an option other than for help, it means `list`."""
        # If nothing was typed yet, the shell completes the sub-commands.
        is_list = args[0][:1] == "-" and args[0] not in ctx.help_option_names if args else not ctx.resilient_parsing
        if is_list:
            args = ["list", *args]
        return super().parse_args(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Return completions: sub-commands, and options of the group and of `list`."""
        listing = self.commands["list"]
        found = super().shell_complete(ctx, incomplete)
        if incomplete[:1] == "-":
            found += listing.shell_complete(click.Context(listing, parent=ctx), incomplete)
        return list({item.value: item for item in found}.values())


@contextmanager
def writing(to: Path) -> Iterator[None]:
    """Report in one sentence that a file or directory can't be written."""
    try:
        yield
    except OSError as error:
        if error.errno is None:  # an error of the SDK's, about a server
            raise
        why = error.strerror or error
        raise click.ClickException(f"{to} can't be written ({why}): check its permissions and disk") from None


def open_client(room: str | None = None, *, patience: float = 0.0) -> "Client":
    """Return a client that gives up at once, as someone waits at the terminal, or after `patience` seconds."""
    from treadle.client.client import Client

    return Client(room=room, patience=patience)


def ask(call: "Callable[[Client], Awaitable[T]]") -> T:
    """Return the result of `call` for a client, which is open meanwhile."""

    async def work() -> T:
        async with open_client() as client:
            answer = await call(client)
            server_time.correct(client.opening().answered_at)
            return answer

    return asyncio.run(work())


def _is_terminal() -> bool:
    # A command may be started without standard output.
    return sys.stdout is not None and sys.stdout.isatty()


def print_json(value: object) -> None:
    """Print a model, a list of models or plain data as JSON."""
    text = json.dumps(_plain(value), indent=2 if _is_terminal() else None, ensure_ascii=False)
    click.echo(clean_json(text))


class Styled(str):
    """Text that was made safe, and may contain our own styles."""

    __slots__ = ()


def styled(text: object, **style: Any) -> Styled:
    """Return a text, made safe, in a style of `click.style`, unless `NO_COLOR` or a dumb terminal says no."""
    cleaned = clean(str(text))
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return Styled(cleaned if is_plain else click.style(cleaned, **style))


def say(*parts: object, err: bool = False) -> None:
    """Print parts with a space between them: the only way to the terminal, because it makes all but `Styled` safe.

    Lines of a part after its first are indented.
    """
    click.echo(" ".join(part if isinstance(part, Styled) else clean_lines(str(part)) for part in parts), err=err)


def told(text: str | None) -> str | None:
    """Return text from a task's code, or a note that it is encrypted."""
    return None if text is None else readable(text)


def spelt(text: str | None) -> str | None:
    """Return a name that somebody gave on one line, with line breaks escaped, or a note that it is encrypted."""
    return None if text is None else clean(readable(text))


def say_result(text: str) -> None:
    """Print a text that is data: unchanged into a file or pipe, made safe on a terminal."""
    click.echo(clean_lines(text, indent="") if _is_terminal() else text)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]], *, empty: str, err: bool = False) -> None:
    """Print rows under their columns' names, each as wide as needed; print `empty` if there are none."""
    if not rows:
        say(empty, err=err)
        return
    texts = [[_text(cell) for cell in row] for row in rows]
    widths = [max(_cells(row[i]) for row in [list(columns), *texts]) for i in range(len(columns))]
    say(styled(_line([name.upper() for name in columns], widths), bold=True), err=err)
    for row in texts:
        say(_line(row, widths), err=err)


def print_page(
    page: "Page[T]", columns: Sequence[str], row: Callable[[T], Sequence[object]], *, empty: str, is_json: bool
) -> None:
    """Print a list, as JSON or as a table with a `row` for each item; say how many there are if it shows only some.

    `empty` is printed if there are none.
    """
    if is_json:
        print_json(page)
        return
    print_table(columns, [row(item) for item in page.items], empty=empty)
    if page.total > len(page.items):
        more = "--limit shows more" if page.limit < MOST_OF_PAGE else f"a list shows at most {MOST_OF_PAGE}"
        say(f"{len(page.items)} of {page.total}{'+' if page.total_is_capped else ''}; {more}.")


def print_item(item: BaseModel, lines: Mapping[str, object], *, is_json: bool) -> None:
    """Print one item, as JSON or as lines that each begin with a word; lines that are None are left out."""
    if is_json:
        print_json(item)
        return
    for name, line in lines.items():
        if line is not None:
            say_line(name, line)


def say_line(name: str, line: object) -> None:
    """Print a line about one item, after the word that names it."""
    say(styled(f"{name:10}", bold=True), f"{line}")


def because(reason: str | None, status: str) -> str:
    """Return a status with its reason, unless that is the same word."""
    return status if reason in {None, status} else f"{status} ({reason})"


def age(instant: datetime | None) -> str:
    """Return how long ago an instant was, or in how long it will be, in its largest unit."""
    if instant is None:
        return "-"
    seconds = (server_time.now() - instant).total_seconds()
    text = duration(abs(seconds))
    return f"{text} ago" if seconds >= 0 else f"in {text}"


_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def duration(seconds: float) -> str:
    """Return a duration in its largest unit, such as 12s or 3h."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s" if seconds >= 10 else f"{seconds:.1f}s"


def length(seconds: float) -> str:
    """Return a duration that somebody has set, exactly, in its largest whole unit: 2m, 90s, 1.5s."""
    for size, unit in _UNITS:
        if seconds >= size and seconds % size == 0:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.10g}s"


def brief(value: object, length: int = 60) -> str:
    """Return a value as one short line of JSON, or a note that it is encrypted."""
    if seal_of(value) is not None:
        return ENCRYPTED
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    return value


def _text(cell: object) -> str:
    # Made safe before it is measured.
    return "-" if cell is None else clean(str(cell))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return "  ".join(cell + " " * (width - _cells(cell)) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _cells(text: str) -> int:
    """Return how many cells of a terminal a text takes: two for each Chinese character or emoji, none for accents."""
    return len(text) if text.isascii() else sum(map(_cells_of, text))


def _cells_of(char: str) -> int:
    if unicodedata.category(char) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
