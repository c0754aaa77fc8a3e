"""The command group: a table of the sub-commands, and loading the one that is used."""

import errno
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

import click

from treadle.cli import INTERRUPTED
from treadle.cli.summaries import SummaryGroup
from treadle.cli.texts import taking_texts
from treadle.standard_files import close_unless_written, drop_unwritable_output

ENTRY_POINTS = "treadle.commands"


class Command(NamedTuple):
    """A sub-command: where it is, and the summary that `treadle --help` shows without importing it."""

    home: str
    summary: str


OWN = {
    "artifacts": Command("treadle.cli.artifacts:artifacts", "List and download the files that a task has stored."),
    "cancel": Command("treadle.cli.steer:cancel", "Cancel tasks, at once."),
    "doctor": Command("treadle.cli.doctor:doctor", "Check that the server is reachable, lets you in, and is healthy."),
    "edit": Command("treadle.cli.edit:edit", "Change waiting tasks."),
    "failures": Command("treadle.cli.lists:failures", "List failures by error and place, the latest first."),
    "flow": Command("treadle.cli.flow:flow", "Show a flow as a tree, or steer all of its tasks."),
    "flows": Command("treadle.cli.flow:flows", "List flows and their progress."),
    "jobs": Command("treadle.cli.lists:jobs", "List jobs and the counts of their queues."),
    "limits": Command("treadle.cli.limits:limits", "List, set and delete limits over all workers."),
    "logs": Command("treadle.cli.logs:logs", "Print what a task's code logged, and follow it."),
    "outbox": Command("treadle.cli.outbox:outbox", "Hand over what programs submitted inside their own transactions."),
    "pause": Command("treadle.cli.steer:pause", "Pause tasks, or a queue; running ones stop with their checkpoint."),
    "prune": Command("treadle.cli.prune:prune", "Remove ended tasks whose retention is over."),
    "rerun": Command("treadle.cli.steer:rerun", "Run ended tasks again, from their start or from a step."),
    "resolve": Command("treadle.cli.steer:resolve", "Settle paused or failed tasks by hand."),
    "resume": Command("treadle.cli.steer:resume", "Resume paused or failed tasks, or a queue."),
    "schedules": Command("treadle.cli.schedules:schedules", "List, set, pause, run and delete recurring tasks."),
    "send": Command("treadle.cli.send:send", "Send a task a message."),
    "submit": Command("treadle.cli.submit:submit", "Submit a task."),
    "targets": Command("treadle.cli.targets:targets", "List targets: what holds each and why, and who waits."),
    "task": Command("treadle.cli.task:task", "Show a task and its runs."),
    "tasks": Command("treadle.cli.lists:tasks", "List tasks, newest first."),
    "token": Command("treadle.cli.token:token", "Create, list and revoke tokens."),
    "webhooks": Command("treadle.cli.webhooks:webhooks", "Send the outcomes of tasks to a URL."),
    "worker": Command("treadle.cli.worker:worker", "Run a worker for the tasks of a module."),
    "workers": Command("treadle.cli.workers:workers", "List workers and what they run, and have some drain."),
}


class Known(NamedTuple):
    """A sub-command of another distribution: which one, and the summary that help shows without importing it."""

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
"""The exit code of a command whose output is no longer read, as a shell gives for SIGPIPE."""


_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""Errors of a disk that can't take any more."""


@contextmanager
def _ending_quietly() -> Iterator[None]:
    """End the command quietly when Ctrl-C stops it, and when its output is no longer read: `treadle tasks | head -1`.

    Output that can't be written for another reason, such as a full disk, is reported in one sentence.
    """
    try:
        with _out_of_groups():
            yield
    except KeyboardInterrupt:
        # Otherwise click would print "Aborted!", as if the command's subject had been aborted.
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        drop_unwritable_output()
    except OSError as error:
        if not _has_no_room(error):
            raise
        drop_unwritable_output()
        from treadle.wire.shown import clean_lines

        click.echo(clean_lines(f"Error: the output can't be written: {error.strerror}"), err=True)
        raise SystemExit(1) from None
    except SystemExit as ended:
        # Rich has turned it into exit code 1.
        if not isinstance(ended.__context__, BrokenPipeError):
            raise
        drop_unwritable_output()
    else:
        return
    finally:
        # A log line that can't be written is no failure of the command; Python would exit with code 120.
        close_unless_written(sys.stderr)
    raise SystemExit(NOT_READ)


@contextmanager
def _out_of_groups() -> Iterator[None]:
    """Take an output error out of the exception group that several tasks, such as those of `treadle demo`, raise."""
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
    """Have click report the SDK's errors."""
    from treadle.errors import TreadleError
    from treadle.settings import InvalidSetting

    try:
        yield
    except InvalidSetting as error:
        raise click.UsageError(f"{_line_of(error)}{error}") from error
    except TreadleError as error:
        raise click.ClickException(f"{_line_of(error)}{error}") from error


def _line_of(error: Exception) -> str:
    """Return the line of a user's module that raised the error when it was imported, and a colon; else nothing."""
    lines = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.name == "<module>"]
    return f"{lines[-1].filename}, line {lines[-1].lineno}: " if lines else ""


class LazyGroup(SummaryGroup):
    """A group that imports a sub-command when it is run, and reports the SDK's errors in one sentence."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every sub-command's name."""
        return sorted({*OWN, *plugins()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a sub-command; None if there is none of this name.

        Raises click's `UsageError`, which says what to install, for one that belongs to another distribution.
        """
        if cmd_name in OWN:
            module, _, name = OWN[cmd_name].home.partition(":")
            command: click.Command = getattr(importlib.import_module(module), name)
            return taking_texts(command)
        entry = plugins().get(cmd_name)
        if entry is None and cmd_name in KNOWN and not ctx.resilient_parsing:  # not while a shell completes
            needed = KNOWN[cmd_name].distribution
            raise click.UsageError(f"`treadle {cmd_name}` needs {needed}, which is not installed: pip install {needed}")
        if entry is None:
            return None
        loaded: click.Command = entry.load()
        return taking_texts(loaded)

    @_ending_quietly()
    def invoke(self, ctx: click.Context) -> Any:
        """Run the sub-command; an error of the SDK or the server becomes one sentence and exit code 1.

        An invalid setting is reported like an invalid command line: 2.
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
            # click would print the message unescaped. The attribute is final to type checkers.
            vars(error)["message"] = clean_lines(error.message)
            raise

    @_ending_quietly()
    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line; click prints its usage errors here."""
        return super().main(*args, **extra)

    @_ending_quietly()
    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line, and print help."""
        return super().make_context(*args, **extra)

    def summary(self, ctx: click.Context, name: str) -> str:
        """Return the summary of a command, from the tables, without importing it."""
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

    The server's address is TREADLE_URL (http://127.0.0.1:7420), the token TREADLE_TOKEN or in the data directory of a
    local server. Every command that prints data takes --json.
    """
    from treadle.cli import notices
    from treadle.variables import untold

    notices.begin(context.invoked_subcommand)
    for sentence in untold():
        notices.warn(sentence)
