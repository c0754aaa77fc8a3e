"""The command `treadle demo`. Imports what it needs only when it runs."""

from pathlib import Path

import click

from treadle.cli.texts import GivenPath


@click.command()
@click.argument("path", required=False, type=click.Path(exists=True, path_type=Path))
@click.option(
    "--concurrency", type=click.IntRange(min=1), default=4, show_default=True, help="Tasks at once, per worker."
)
@click.option("--workers", type=click.IntRange(min=1, max=64), default=2, show_default=True, help="Worker processes.")
@click.option(
    "--keep", type=GivenPath(file_okay=False, path_type=Path), help="Keep the database and logs in this directory."
)
@click.option("--plain", is_flag=True, help="Print progress; don't open the dashboard.")
@click.option("--json", "as_json", is_flag=True, help="Print nothing but the summary, as JSON.")
def demo(path: Path | None, concurrency: int, workers: int, keep: Path | None, *, plain: bool, as_json: bool) -> None:
    """Examine every Python file under PATH, one task for each.

    Without PATH these are the files of Python's standard library. A server on SQLite and workers are started for it
    and stopped at its end. In a terminal the dashboard shows the work; quit it to see the summary.
    """
    from treadle_bench.demo.run import DemoFailed, DemoOptions, DemoStopped, run_demo
    from treadle_bench.demo.sources import python_files, standard_library

    root = (path or standard_library()).resolve()
    files = python_files(root)
    if not files:
        raise click.UsageError(f"there are no Python files under {root}")
    options = DemoOptions(
        root=root if root.is_dir() else root.parent,
        files=files,
        concurrency=concurrency,
        workers=workers,
        keep=keep,
        is_plain=plain,
        is_json=as_json,
    )
    try:
        code = run_demo(options)
    except DemoFailed as error:
        raise click.ClickException(str(error)) from None
    except (DemoStopped, KeyboardInterrupt):
        from treadle.cli.show import say

        say("Stopped; nothing is left running.", err=True)
        code = 130
    raise SystemExit(code)
