"""The command `treadle bench`. Imports what it needs only when it runs."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli.numbers import Number
from treadle.cli.texts import NAME, GivenPath

if TYPE_CHECKING:
    from treadle_bench.runner import BenchOptions, Report

_file = GivenPath(dir_okay=False, path_type=Path)
_directory = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command()
@click.argument("cases", nargs=-1, metavar="[CASE]...")
@click.option("--list", "is_list", is_flag=True, help="Print the cases and their bars without measuring.")
@click.option("--database", type=click.Choice(["sqlite", "postgresql", "both"]), default="both", show_default=True,
              help="The databases to measure on.")  # fmt: skip
@click.option("--postgres-url", help="A PostgreSQL server in which to create databases; its own settings apply.")
@click.option(
    "--repeats", type=click.IntRange(1), default=3, show_default=True, help="How many values each median is taken of."
)
@click.option(
    "--scale", type=Number(0, 1, min_open=True), default=1.0, help="Measure with this fraction of the full sizes."
)
@click.option("--minutes", type=Number(0, min_open=True),
              help="How long the soak lasts; by default an hour times --scale.")  # fmt: skip
@click.option("--rate", type=click.IntRange(1), default=500, show_default=True, help="The soak's tasks per second.")
@click.option("--against", type=_directory, help="Run each *_peer.py of a directory in turn, and print the ratios.")
@click.option(
    "--dir", "scratch", type=_directory, help="Where to create databases; by default on a disk, not in memory."
)
@click.option(
    "--json", "json_to", type=NAME, metavar="FILE", help="Write the report as JSON; - prints it and nothing else."
)
@click.option("--from", "earlier", type=_file, help="Show the JSON of an earlier run without measuring.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@click.option("--svg", type=_file, help="Draw the curves, and the soak over time.")
def bench(
    cases: tuple[str, ...], *, is_list: bool, database: str, postgres_url: str | None, repeats: int, scale: float,
    minutes: float | None, rate: int, against: Path | None, scratch: Path | None, json_to: str | None,
    earlier: Path | None, markdown: bool, svg: Path | None,
) -> None:  # fmt: skip
    """Measure how fast Treadle is on this machine, with real servers, workers and submitters.

    A CASE is one of those in --list, `bars` (every case that a bar needs; the default), or `curves`. Progress goes to
    standard error. Exits with 1 if a case could not be measured; a missed bar is shown, but is not an error.
    """
    from rich.console import Console

    from treadle.cli.show import writing
    from treadle_bench.show import print_cases

    if is_list:
        print_cases(Console(highlight=False))
        return
    if earlier is not None:
        report = _read(earlier)
    else:
        kinds = ("sqlite", "postgresql") if database == "both" else (database,)
        options = _options(cases, kinds, postgres_url, repeats, scale, minutes, rate, against, scratch)
        for path in filter(None, (svg, _path(json_to))):
            # Before hours of measuring, not after them.
            with writing(path), path.open("ab"):
                pass
        report = _measure(options)
    _write(report, json_to, markdown=markdown, svg=svg)
    if report.failures:
        raise SystemExit(1)


def _options(
    names: tuple[str, ...], kinds: tuple[str, ...], postgres_url: str | None, repeats: int, scale: float,
    minutes: float | None, rate: int, against: Path | None, scratch: Path | None,
) -> "BenchOptions":  # fmt: skip
    from treadle_bench.catalogue import chosen
    from treadle_bench.figures import BenchFailed
    from treadle_bench.machine import scratch_directory
    from treadle_bench.peers import find_peers
    from treadle_bench.runner import BenchOptions
    from treadle_bench.testbed import Soak

    try:
        cases, peers = chosen(names), find_peers(against) if against else []
    except KeyError as error:
        raise click.UsageError(f"there is no case {error}; see treadle bench --list") from None
    except BenchFailed as error:
        raise click.UsageError(str(error)) from None
    return BenchOptions(
        cases=cases,
        databases=kinds,
        repeats=repeats,
        scale=scale,
        scratch=(scratch or scratch_directory()).resolve(),
        postgres_url=postgres_url,
        peers=peers,
        soak=Soak(minutes=60 * scale if minutes is None else minutes, rate=rate),
    )


def _measure(options: "BenchOptions") -> "Report":
    from treadle.cli.show import say
    from treadle_bench.figures import BenchFailed
    from treadle_bench.runner import Bench

    command = " ".join(["treadle", "bench", *sys.argv[2:]])
    try:
        return Bench(options, lambda line: say(line, err=True)).report(command)
    except BenchFailed as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        say("Stopped; nothing is left running.", err=True)
        raise SystemExit(130) from None


def _read(path: Path) -> "Report":
    from pydantic import ValidationError

    from treadle_bench.runner import Report

    try:
        return Report.model_validate_json(path.read_bytes())
    except (OSError, ValidationError) as error:
        raise click.UsageError(f"{path} is not a report of treadle bench: {error}") from None


def _path(json_to: str | None) -> Path | None:
    return None if json_to in {None, "-"} else Path(json_to)


def _write(report: "Report", json_to: str | None, *, markdown: bool, svg: Path | None) -> None:
    from rich.console import Console

    from treadle.cli.show import writing
    from treadle.wire.shown import clean_json, clean_lines
    from treadle_bench.picture import draw
    from treadle_bench.show import as_markdown, print_report

    if svg is not None:
        with writing(svg):
            svg.write_text(draw(report.rows))
    text = report.model_dump_json(indent=2)
    if json_to == "-":
        click.echo(clean_json(text))
        return
    if path := _path(json_to):
        with writing(path):
            path.write_text(text + "\n")
    if markdown:
        click.echo(clean_lines(as_markdown(report), indent=""), nl=False)
    else:
        # A file or a pipe has no width; lines that are not wrapped are easier to search.
        print_report(report, Console(highlight=False, width=None if sys.stdout.isatty() else 140))
