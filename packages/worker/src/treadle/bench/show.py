"""The report in print: tables for people, Markdown for documents."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from treadle.bench.catalogue import CASES
from treadle.bench.figures import BOTH, NONE, Row
from treadle.bench.runner import Report
from treadle.cli.rich_cells import cell
from treadle.wire.shown import clean_lines

_HEAD = ("case", "database", "figure", "median", "min", "max", "bar", "")
_RATIO_HEAD = ("peer", "case", "database", "figure", "ours", "theirs", "ratio")


def print_report(report: Report, console: Console) -> None:
    """Print where and how the figures were taken, then the figures, the ratios, and what could not be measured."""
    for name, value in _facts(report).items():
        console.print(f"[bold]{cell(name):<12}[/bold] {cell(value)}", soft_wrap=True)
    _print_table(console, _HEAD, [_cells(row) for row in report.rows])
    if report.ratios:
        _print_table(console, _RATIO_HEAD, _ratio_cells(report))
    for failure in report.failures:
        console.print(f"[red]{cell(failure.case)} on {cell(failure.database)} could not be measured:[/red]")
        console.print(clean_lines(failure.message), markup=False)
    console.print(_verdict(report))


def as_markdown(report: Report) -> str:
    """Return the same for a document."""
    facts = "\n".join(f"- {name}: {value}" for name, value in _facts(report).items())
    parts = [f"```sh\n{report.command}\n```", facts, _markdown(_HEAD, [_cells(row) for row in report.rows])]
    if report.ratios:
        parts.append(_markdown(_RATIO_HEAD, _ratio_cells(report)))
    parts += [
        f"{one.case} on {one.database} could not be measured: {clean_lines(one.message)}" for one in report.failures
    ]
    return "\n\n".join([*parts, _verdict(report)]) + "\n"


def print_cases(console: Console) -> None:
    """Print every case, what it measures, and its bars."""
    table = Table("case", "measures", "bars", pad_edge=False, box=None, show_lines=False)
    for case in CASES.values():
        bars = [f"{figure.name}: {_bars(dict(figure.bars), figure.unit)}" for figure in case.figures if figure.bars]
        table.add_row(case.name, cell(case.summary), cell("\n".join(bars)))
    console.print(table)


def _bars(bars: dict[str, float], unit: str) -> str:
    if set(bars) == set(BOTH) and len(set(bars.values())) == 1:
        bars = {NONE: next(iter(bars.values()))}
    return ", ".join(f"{_number(bar)} {unit}" + ("" if kind == NONE else f" ({kind})") for kind, bar in bars.items())


def _facts(report: Report) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    how = f"medians of {report.repeats}" + ("" if report.scale == 1 else f", at {report.scale:g} of the full size")
    left_out = {"left out": report.left_out} if report.left_out else {}
    return {**report.machine, "versions": versions, "figures": how, **left_out}


def _cells(row: Row) -> tuple[str, ...]:
    figure = row.figure if row.x is None else f"{row.figure}, {row.x:,g} {row.axis}"
    bar = "" if row.bar is None else f"{'≥' if row.is_rate else '≤'} {_number(row.bar)}"
    verdict = {None: "", True: "met", False: "missed"}[row.met]
    values = (f"{_number(row.median)} {row.unit}", _number(min(row.values)), _number(max(row.values)))
    return (row.case, "" if row.database == NONE else row.database, figure, *values, bar, verdict)


def _ratio_cells(report: Report) -> list[tuple[str, ...]]:
    return [
        (
            one.peer,
            one.case,
            one.database,
            one.figure,
            f"{_number(one.ours)} {one.unit}",
            f"{_number(one.theirs)} {one.unit}",
            f"{one.ratio:.2f} {'ahead' if one.ratio >= 1 else 'behind'}",
        )
        for one in report.ratios
    ]


def _verdict(report: Report) -> str:
    barred = [row for row in report.rows if row.met is not None]
    met = sum(row.met is True for row in barred)
    return f"{met} of {len(barred)} bars met." if barred else "No figure here has a bar."


def _print_table(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(pad_edge=False, box=None)
    for name in head:
        is_number = name in {"median", "min", "max", "ours", "theirs"}
        table.add_column(name, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        style = {"missed": "red", "met": "green"}.get(row[-1])
        table.add_row(*map(cell, row[:-1]), f"[{style}]{row[-1]}[/{style}]" if style else cell(row[-1]))
    console.print(table)


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
