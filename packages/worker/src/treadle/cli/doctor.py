"""`treadle doctor`: what is wrong on this machine, with its database, and between here and the server."""

import asyncio
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from treadle.cli.show import as_json, print_json, say, styled
from treadle.cli.task_options import Duration

if TYPE_CHECKING:
    from treadle.wire.findings import Finding

COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}

LONGEST_CLOSING = 2.0
"""Seconds that closing the connections to the server may take."""


@click.command()
@click.option("--timeout", type=Duration(min=0, min_open=True), default=10.0, show_default=True,
              help="Seconds that each check may take.")  # fmt: skip
@as_json
def doctor(*, timeout: float, is_json: bool) -> None:
    """Examine this machine, its database, and the server as seen from here; exit 1 if something fails.

    Each line says ok, warn or fail, what was seen, and what to do. Nothing is changed. Where treadle-server is
    installed, its disk, files, database and limits are examined too, by the server's settings such as TREADLE_DATA_DIR
    and TREADLE_DATABASE_URL, whether it is running or not.
    """
    findings = asyncio.run(_examined(timeout))
    if is_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            advice = f"; {finding.advice}" if finding.advice else ""
            mark = styled(f"{finding.grade:<4}", fg=COLOURS[finding.grade])
            say(mark, f"{finding.check:<11} {finding.detail}{advice}")
    if any(finding.grade == "fail" for finding in findings):
        raise SystemExit(1)


async def _examined(limit: float) -> "list[Finding]":
    from treadle.doctor import here, there
    from treadle.doctor.examination import examine

    stack = AsyncExitStack()
    findings = await examine([*here.checks(), *there.checks(stack, limit)], limit)
    # What can't be closed in time ends with the process.
    await asyncio.wait([asyncio.ensure_future(stack.aclose())], timeout=LONGEST_CLOSING)
    return findings
