"""`treadle worker MODULE`: runs the tasks of a module until it is stopped."""

import gc
import logging
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from treadle.cli.show import say
from treadle.cli.task_options import Duration
from treadle.cli.texts import NAME
from treadle.standard_files import drop_unwritable_output
from treadle.wire.amounts import first_of
from treadle.wire.modules import ExitedAtImport, NotImported, imported

if TYPE_CHECKING:
    from treadle.tasks.definition import Task

log = logging.getLogger("treadle.worker")

MOST_NEW = 10_000
"""How many new objects there may be before the garbage collector looks for cycles; by default it does every 700.

A task's objects are freed by reference counting. In a drain of no-ops a fifth of a worker's processor time went into
searching them, and everything imported: 24.8 · 30.8 · 26.3 microseconds a task, and 21.8 · 21.0 · 20.8 without.
"""

MOST_NAMED = 20
"""The most tasks that are named when the worker starts."""


@click.command()
@click.argument("modules", metavar="MODULE...", nargs=-1, required=True)
@click.option(
    "-c",
    "--concurrency",
    type=click.IntRange(1),
    default=8,
    show_default=True,
    help="The most weight of tasks that runs at once.",
)
@click.option(
    "--min-concurrency", type=click.IntRange(0), default=0, help="Ask for more only when less than that runs."
)
@click.option(
    "--prefetch",
    type=click.IntRange(0),
    help="Weight to claim ahead, beyond the concurrency; by default what is done in 100 ms and a round trip.",
)
@click.option("--name", type=NAME, help="The worker's name; by default the host's name and the process id.")
@click.option("--group", type=NAME, help="The worker's group.")
@click.option("--pool", type=NAME, help="Take tasks of this pool, besides those without a pool.")
@click.option("--drain-grace", type=Duration(0), default=30.0, show_default=True,
              help="Seconds that running tasks have to finish when the worker is stopped.")  # fmt: skip
@click.option("--max-idle", type=Duration(0, min_open=True),
              help="Stop after this many seconds with nothing to run.")  # fmt: skip
@click.option("--replace-schema", is_flag=True, help="Let changed tasks replace the registered schemas.")
@click.option("--reload", is_flag=True, help="Restart when a Python file changes, for development.")
@click.option("--reload-dir", "places", type=click.Path(exists=True, file_okay=False, path_type=Path), multiple=True,
              help="A directory to watch, instead of the current one; may be given again.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Log every step.")
def worker(modules: tuple[str, ...], *, reload: bool, places: tuple[Path, ...], verbose: bool, **options: Any) -> None:
    """Run the tasks that MODULE defines until Ctrl-C or SIGTERM; then let running ones finish, and stop.

    MODULE is also looked for in the current directory: `treadle worker examples.hello`. The process is the worker's
    own, so Python's garbage collector runs less often than by default, unless MODULE configures it.
    """
    if places and not reload:
        raise click.UsageError("--reload-dir: only with --reload")
    if reload:
        ctx = click.get_current_context()
        ctx.exit(_reloading(ctx, places or (Path(),)))
    from treadle import logs
    from treadle.cli import notices
    from treadle.errors import TreadleError
    from treadle.isolation.output import line_by_line
    from treadle.settings import Settings
    from treadle.worker.worker import Worker

    logs.begin(Settings().log_format, logging.DEBUG if verbose else logging.INFO)
    line_by_line()
    gc.set_threshold(MOST_NEW, 20, 20)
    tasks = load(modules)
    gc.freeze()  # what was imported stays, so no collection needs to search it
    told = f"Tasks: {first_of([task.full_name for task in tasks], MOST_NAMED)}"
    if not notices.in_log(logging.INFO, told):
        _say_if_possible(told)
    try:
        made = Worker(tasks, **options)
    except TreadleError:
        raise
    except ValueError as error:
        # Numbers that are valid each but not together.
        raise click.UsageError(str(error)) from None
    try:
        made.run()
    finally:
        # What tasks have printed may be in the buffer, and unwritable: Python would exit with code 120.
        drop_unwritable_output()


def _say_if_possible(told: str) -> None:
    """Print it; if that is impossible, as on a full disk, run tasks all the same."""
    try:
        say(told)
    except OSError as error:
        drop_unwritable_output()
        log.warning("the output can't be written (%s): the worker keeps running without it", error.strerror)


def _reloading(ctx: click.Context, places: tuple[Path, ...]) -> int:
    """Run the worker in a process that is restarted when code changes; return its last exit code.

    Raises `click.UsageError` without watchfiles, and what `Reloader.run` raises.
    """
    if find_spec("watchfiles") is None:
        raise click.UsageError("--reload needs watchfiles, which is not installed: pip install 'treadle[reload]'")
    from treadle.cli.reloading import Reloader

    words: list[str] = []
    for param in ctx.command.params:
        name = param.name or ""
        is_given = ctx.get_parameter_source(name) == ParameterSource.COMMANDLINE
        if is_given and isinstance(param, click.Option) and name not in {"reload", "places"}:
            value = ctx.params[name]
            words += [param.opts[-1]] if param.is_flag else [param.opts[-1], str(value)]
    words += ["--", *ctx.params["modules"]]
    return Reloader(words, places).run()


def load(names: tuple[str, ...]) -> "list[Task[..., Any]]":
    """Import modules and return their tasks; raises `click.UsageError` when there is no such module, or no task.

    Raises `click.ClickException` for a module that exits when it is imported.
    """
    from treadle.tasks.registry import collect

    try:
        modules = [imported(name) for name in names]
    except ExitedAtImport as error:
        raise click.ClickException(str(error)) from None
    except NotImported as error:
        raise click.UsageError(str(error)) from None
    tasks = collect(modules)
    if not tasks:
        raise click.UsageError(f"{', '.join(names)} has no task: decorate a function with @task at its top level")
    return tasks
