"""`treadle logs ID`: what a task's code logged, and with `--follow` what it logs from now on."""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from treadle.cli.show import FOLLOWING, as_json, open_client, print_json, say, told
from treadle.cli.which import TASK_ID, full_id
from treadle.wire.runs import LINES_AT_ONCE
from treadle.wire.shown import clean_json
from treadle.wire.status import TERMINAL

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.wire.runs import LogItem

PAUSE = 1.0
"""Seconds between two checks for new lines."""


@click.command()
@click.argument("task_id", type=TASK_ID, metavar="ID")
@click.option("--lines", type=click.IntRange(0, LINES_AT_ONCE), default=LINES_AT_ONCE, show_default=True,
              help="At most this many of the last lines; with --follow, before new ones.")  # fmt: skip
@click.option("-f", "--follow", is_flag=True, help="Print new lines as they come, until the task has ended.")
@as_json
def logs(task_id: str, *, lines: int, follow: bool, is_json: bool) -> None:
    """Print what a task's code logged, at most the last 1,000 lines; lines of runs after the first name the run.

    ID may be shortened to its beginning if that is unique. With --follow and --json each line is a JSON object.
    """
    asyncio.run(_logs(task_id, lines, follow=follow, is_json=is_json))


async def _logs(given: str, lines: int, *, follow: bool, is_json: bool) -> None:
    async with open_client(patience=FOLLOWING if follow else 0.0) as client:
        task_id = await full_id(client, given)
        if follow:
            await _follow(client, task_id, lines, is_json=is_json)
            return
        found = (await client.logs(task_id))[-lines:] if lines else []
    if is_json:
        print_json(found)
    else:
        _print(found, is_json=False)


async def _follow(client: "Client", task_id: str, lines: int, *, is_json: bool) -> None:
    known: Sequence[LogItem] = []
    most = lines
    while True:
        # Read before the lines: a task that has ended has logged all that it will.
        has_ended = (await client.get(task_id)).status in TERMINAL
        found = await client.logs(task_id)
        new = newer(known, found)
        _print(new[max(0, len(new) - most) :], is_json=is_json)
        if has_ended:
            return
        known, most = found, LINES_AT_ONCE
        await asyncio.sleep(PAUSE)


def newer(known: "Sequence[LogItem]", found: "Sequence[LogItem]") -> "Sequence[LogItem]":
    """Return the lines that came after the known ones, the first of which may be missing by now."""
    for start in range(len(known) + 1):
        still = known[start:]
        if found[: len(still)] == still:
            return found[len(still) :]
    return found


def _print(lines: "Sequence[LogItem]", *, is_json: bool) -> None:
    for line in lines:
        if is_json:
            click.echo(clean_json(line.model_dump_json()))
        else:
            run = f"run {line.run_id} " if line.run_id else ""
            say(f"{run}{line.at:%H:%M:%S} {line.level:<7} {told(line.message)}")
