"""The printed report: tables for people, Markdown for documents."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from treadle.wire.shown import clean_lines
from treadle_bench.bars import BARS, Bar, Verdict
from treadle_bench.catalogue import CASES
from treadle_bench.figures import BOTH, NONE, Row
from treadle_bench.rich_cells import cell
from treadle_bench.runner import Report

_HEAD = ("case", "database", "figure", "median", "min", "max")
_BAR_HEAD = ("bar", "database", "value", "limit", "")
_RATIO_HEAD = ("peer", "case", "database", "figure", "ours", "theirs", "ratio")


def print_report(report: Report, console: Console) -> None:
    """Print the machine, the figures, the ratios to peers, the bars, and what could not be measured."""
    for name, value in _facts(report).items():
        console.print(f"[bold]{cell(name):<12}[/bold] {cell(value)}", soft_wrap=True)
    _print_table(console, _HEAD, [_cells(row) for row in report.rows])
    if report.ratios:
        _print_table(console, _RATIO_HEAD, _ratio_cells(report))
    if report.bars:
        _print_table(console, _BAR_HEAD, [_bar_cells(one) for one in report.bars])
    for failure in report.failures:
        console.print(f"[red]{cell(failure.case)} on {cell(failure.database)} could not be measured:[/red]")
        console.print(clean_lines(failure.message), markup=False)
    console.print(_verdict(report))


def as_markdown(report: Report) -> str:
    """Return the same report as Markdown."""
    facts = "\n".join(f"- {name}: {value}" for name, value in _facts(report).items())
    parts = [f"```sh\n{report.command}\n```", facts, _markdown(_HEAD, [_cells(row) for row in report.rows])]
    if report.ratios:
        parts.append(_markdown(_RATIO_HEAD, _ratio_cells(report)))
    if report.bars:
        parts.append(_markdown(_BAR_HEAD, [_bar_cells(one) for one in report.bars]))
    parts += [
        f"{one.case} on {one.database} could not be measured: {clean_lines(one.message)}" for one in report.failures
    ]
    return "\n\n".join([*parts, _verdict(report)]) + "\n"


def print_cases(console: Console) -> None:
    """Print every case, what it measures, and its bars."""
    table = Table("case", "measures", "bars", pad_edge=False, box=None, show_lines=False)
    for case in CASES.values():
        bars = [f"{bar.what}: {_limits(bar)}" for bar in BARS if bar.case == case.name]
        table.add_row(case.name, cell(case.summary), cell("\n".join(bars)))
    console.print(table)


def _limits(bar: Bar) -> str:
    limits = dict(bar.limits)
    if set(limits) == set(BOTH) and len(set(limits.values())) == 1:
        limits = {NONE: next(iter(limits.values()))}
    return ", ".join(
        f"{_limit(limit, bar.unit, is_floor=bar.is_floor)}" + ("" if kind == NONE else f" ({kind})")
        for kind, limit in limits.items()
    )


def _limit(limit: float, unit: str, *, is_floor: bool) -> str:
    return f"{'≥' if is_floor else '≤'} {_number(limit)} {unit}"


def _bar_cells(one: Verdict) -> tuple[str, ...]:
    value = "not measured" if one.value is None else f"{_number(one.value)} {one.unit}"
    verdict = {None: "", True: "met", False: "missed"}[one.met]
    database = "" if one.database == NONE else one.database
    return (one.what, database, value, _limit(one.limit, one.unit, is_floor=one.is_floor), verdict)


def _facts(report: Report) -> dict[str, str]:
    versions = ", ".join(f"{name} {version}" for name, version in report.versions.items())
    how = f"medians of {report.repeats}" + ("" if report.scale == 1 else f", at {report.scale:g} of the full size")
    left_out = {"left out": report.left_out} if report.left_out else {}
    return {**report.machine, "versions": versions, "figures": how, **left_out}


def _cells(row: Row) -> tuple[str, ...]:
    figure = row.figure if row.x is None else f"{row.figure}, {row.x:,g} {row.axis}"
    values = (f"{_number(row.median)} {row.unit}", _number(min(row.values)), _number(max(row.values)))
    return (row.case, "" if row.database == NONE else row.database, figure, *values)


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
    judged = [bar for bar in report.bars if bar.met is not None]
    if not judged:
        return "No bar is calculated from these figures."
    left = len(report.bars) - len(judged)
    more = f" {left} could not be calculated: what they are compared with was not measured in this run." if left else ""
    return f"{sum(bar.met is True for bar in judged)} of {len(judged)} bars met.{more}"


def _print_table(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    table = Table(pad_edge=False, box=None)
    for name in head:
        is_number = name in {"median", "min", "max", "ours", "theirs", "value", "limit"}
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
