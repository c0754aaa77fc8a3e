"""The command group: a table of what there is, and the loading of what is asked for."""

import errno
import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import click

from treadle.cli import INTERRUPTED
from treadle.cli.summaries import SummaryGroup
from treadle.cli.texts import taking_texts
from treadle.standard_files import close_unless_written, close_what_is_not_read

ENTRY_POINTS = "treadle.commands"


class Command(NamedTuple):
    """A sub-command: where it is, and the line that `treadle --help` shows without loading it."""

    home: str
    summary: str


OWN = {
    "artifacts": Command("treadle.cli.artifacts:artifacts", "List and download the files that a task has stored."),
    "cancel": Command("treadle.cli.steer:cancel", "Cancel tasks, at once."),
    "doctor": Command("treadle.cli.doctor:doctor", "Check that the server is reached, lets you in, and is well."),
    "edit": Command("treadle.cli.edit:edit", "Change waiting tasks."),
    "failures": Command("treadle.cli.lists:failures", "List failures by error and place, the latest first."),
    "flow": Command("treadle.cli.flow:flow", "Show a flow as a tree, or steer all of its tasks."),
    "flows": Command("treadle.cli.flow:flows", "List flows and their progress."),
    "jobs": Command("treadle.cli.lists:jobs", "List jobs and the counts of their queues."),
    "limits": Command("treadle.cli.limits:limits", "List, set and delete limits over all workers."),
    "logs": Command("treadle.cli.logs:logs", "Print what a task's code logged, and follow it."),
    "outbox": Command("treadle.cli.outbox:outbox", "Hand over what programs submitted inside their own transactions."),
    "pause": Command("treadle.cli.steer:pause", "Pause tasks, or a queue; running ones stop with their checkpoint."),
    "prune": Command("treadle.cli.prune:prune", "Remove ended tasks that are past their time."),
    "rerun": Command("treadle.cli.steer:rerun", "Run ended tasks again, from their start or from a step."),
    "resolve": Command("treadle.cli.steer:resolve", "Settle paused or failed tasks by hand."),
    "resume": Command("treadle.cli.steer:resume", "Resume paused or failed tasks, or a queue."),
    "schedules": Command("treadle.cli.schedules:schedules", "List, set, pause, run and delete recurring tasks."),
    "send": Command("treadle.cli.send:send", "Send a task a message."),
    "submit": Command("treadle.cli.submit:submit", "Submit a task."),
    "targets": Command("treadle.cli.targets:targets", "List targets: what holds each and why, and who waits."),
    "task": Command("treadle.cli.task:task", "Show a task and its runs."),
    "tasks": Command("treadle.cli.lists:tasks", "List tasks, newest first."),
    "token": Command("treadle.cli.token:token", "Make, list and revoke tokens."),
    "webhooks": Command("treadle.cli.webhooks:webhooks", "Send the outcomes of tasks to a URL."),
    "worker": Command("treadle.cli.worker:worker", "Run a worker for the tasks of a module."),
    "workers": Command("treadle.cli.workers:workers", "List workers and what they run, and have some drain."),
}


class Known(NamedTuple):
    """A sub-command of another distribution: which brings it, and the line that help shows without loading it."""

    distribution: str
    summary: str


KNOWN = {
    "bench": Known("treadle-bench", "Measure how fast the server, its workers and the socket are."),
    "copy": Known("treadle-server", "Move a whole database between SQLite and PostgreSQL."),
    "demo": Known("treadle-bench", "Start a server, a worker and real tasks, and watch them."),
    "migrate": Known("treadle-server", "Bring the database's schema up to date."),
    "server": Known("treadle-server", "Serve tasks over HTTP and a websocket."),
    "watch": Known("treadle-tui", "Watch queues, tasks and workers live in the terminal."),
}


def plugins() -> dict[str, EntryPoint]:
    """Return the sub-commands that installed distributions add."""
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINTS)}


NOT_READ = 128 + 13
"""The exit code of a command whose output was cut off: what the shell gives for SIGPIPE."""


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What a disk says that takes nothing more."""


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """End the command quietly when Ctrl-C stops it, and when nobody reads it any more: `treadle tasks | head -1`.

    What can't be written for another reason, such as a full disk, is told in one sentence.
    """
    try:
        with _out_of_groups():
            yield
    except KeyboardInterrupt:
        # Of which click would say "Aborted!", as if that were said of what the command was about.
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        close_what_is_not_read()
    except OSError as error:
        if not _has_no_room(error):
            raise
        close_what_is_not_read()
        from treadle.wire.shown import clean_lines

        click.echo(clean_lines(f"Error: the output can't be written: {error.strerror}"), err=True)
        raise SystemExit(1) from None
    except SystemExit as ended:
        # Rich has made it exit code 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        close_what_is_not_read()
    else:
        return
    finally:
        # Lines of a log for which its disk has no room are no failure of the command; Python makes 120 of them.
        close_unless_written(sys.stderr)
    raise SystemExit(NOT_READ)


@contextmanager
def _out_of_groups() -> Iterator[None]:
    """Raise by itself what one of several tasks, such as those of `treadle demo`, could not print."""
    try:
        yield
    except ExceptionGroup as several:
        of_output = several.subgroup(lambda error: isinstance(error, BrokenPipeError) or _has_no_room(error))
        if of_output is None:
            raise
        found: Exception = of_output
        while isinstance(found, ExceptionGroup):
            found = found.exceptions[0]
        raise found from None


def _has_no_room(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _NO_ROOM and error.filename is None


@contextmanager
def _in_a_sentence() -> Iterator[None]:
    """Have click tell what the SDK raises."""
    from treadle.errors import TreadleError
    from treadle.settings import InvalidSetting

    try:
        yield
    except InvalidSetting as error:
        raise click.UsageError(str(error)) from error
    except TreadleError as error:
        raise click.ClickException(str(error)) from error


class LazyGroup(SummaryGroup):
    """A group that imports a sub-command when it is run, and says what the SDK raises in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every sub-command's name."""
        return sorted({*OWN, *plugins()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Load a sub-command; None when there is none of that name.

        Raises click's `UsageError`, which says what to install, for one that another distribution brings.
        """
        if cmd_name in OWN:
            module, _, name = OWN[cmd_name].home.partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return taking_texts(command)
        entry = plugins().get(cmd_name)
        if entry is None and cmd_name in KNOWN and not ctx.resilient_parsing:  # a shell that completes
            needed = KNOWN[cmd_name].distribution
            raise click.UsageError(f"`treadle {cmd_name}` needs {needed}, which is not installed: pip install {needed}")
        if entry is None:
            return None
        loaded: click.Command = entry.load()
        return taking_texts(loaded)

    @_ending_quietly()
    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command; an error of the SDK or the server becomes one sentence and exit code 1.

        A setting that can't be meant is told as a command line is that can't be: 2.
        """
        import logging

        from treadle.cli import notices
        from treadle.wire.shown import clean_lines

        try:
            with _in_a_sentence():
                return super().invoke(ctx)
        except click.ClickException as error:
            if notices.in_log(logging.ERROR, error.format_message()):
                raise SystemExit(error.exit_code) from None
            # Whoever's words these are, click prints them as they are. The attribute is final to type checkers.
            vars(error)["message"] = clean_lines(error.message)
            raise

    @_ending_quietly()
    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line: of what is not read, click shows an error here."""
        return super().main(*args, **extra)

    @_ending_quietly()
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Read the command line, and print help."""
        return super().make_context(*args, **extra)

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the sentence that tells of a command, from the tables, without loading it."""
        if name in OWN:
            return OWN[name].summary
        if name in KNOWN:
            return KNOWN[name].summary
        distribution = plugins()[name].dist
        return f"From {distribution.name}." if distribution is not None else ""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="treadle", message="treadle %(version)s")
@click.pass_context
def treadle(context: click.Context) -> None:
    """Treadle: a durable task queue that you can watch and steer.

    The server is found by TREADLE_URL (http://127.0.0.1:7420), the token by TREADLE_TOKEN or in the data directory of
    a local server. Every command that prints data takes --json.
    """
    from treadle.cli import notices
    from treadle.variables import untold

    notices.begin(context.invoked_subcommand)
    for sentence in untold():
        notices.warn(sentence)
