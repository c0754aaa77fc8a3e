"""The printed summary of the demo: tables for people, JSON for programs."""

from dataclasses import asdict
from pathlib import Path
from shlex import quote

from rich.console import Console
from rich.table import Table

from treadle.cli.show import print_json
from treadle.wire.amounts import counted
from treadle.wire.shown import clean
from treadle_bench.demo.summary import Summary
from treadle_bench.demo.tasks import Counts
from treadle_bench.rich_cells import cell


def print_summary(summary: Summary, *, kept: Path | None, is_json: bool) -> None:
    """Print the summary; `kept` is the directory where the database stays."""
    if is_json:
        print_json({**asdict(summary), "totals": summary.totals})
        return
    console = Console(highlight=False)
    console.print(_outcome(summary))
    if summary.failures:
        console.print(_failures(summary))
    if summary.slowest:
        console.print(_slowest(summary))
    if summary.totals is not None:
        console.print(_totals(summary.totals))
    if summary.open:
        console.print(f"{summary.open:,} tasks had not ended when the dashboard was closed.")
    if kept is not None:
        console.print(clean(_again(kept)), markup=False, soft_wrap=True)


def _again(kept: Path) -> str:
    """Return how to look at the directory again. Server and dashboard both need it, because it holds the token."""
    where = f"TREADLE_DATA_DIR={quote(str(kept.resolve()))}"
    return f"Kept. To look at it again: {where} treadle server, and in another terminal {where} treadle watch"


def _outcome(summary: Summary) -> Table:
    table = Table(title=counted(summary.files, "file"), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    table.add_row("completed", f"{summary.completed:,}")
    table.add_row("failed", f"{summary.failed:,}")
    for error, count in summary.errors.items():
        table.add_row(f"  {cell(error)}", f"{count:,}")
    if summary.cancelled:
        table.add_row("cancelled", f"{summary.cancelled:,}")
    if summary.open:
        table.add_row("still open", f"{summary.open:,}")
    table.add_row("seconds", f"{summary.seconds:,.1f}")
    table.add_row("tasks a second", f"{summary.tasks_per_second:,.0f}")
    table.add_row("wait in the queue, p50", f"{summary.wait_p50:.2f} s")
    table.add_row("wait in the queue, p95", f"{summary.wait_p95:.2f} s")
    return table


def _failures(summary: Summary) -> Table:
    table = Table(title="Failed", title_justify="left")
    table.add_column("file", overflow="fold")
    table.add_column("error", overflow="fold")
    for path, error in list(summary.failures.items())[:20]:
        first = error.splitlines()[0] if error else ""
        table.add_row(cell(path), cell(first))
    if len(summary.failures) > 20:
        table.caption = f"and {len(summary.failures) - 20:,} more"
    return table


def _slowest(summary: Summary) -> Table:
    table = Table(title="Slowest", title_justify="left")
    table.add_column("file", overflow="fold")
    table.add_column("seconds", justify="right")
    for path, seconds in summary.slowest.items():
        table.add_row(cell(path), f"{seconds:.2f}")
    return table


def _totals(totals: Counts) -> Table:
    table = Table(title="Found, as the last task added it up", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, count in totals.model_dump().items():
        table.add_row(name.replace("_", " "), f"{count:,}")
    return table
