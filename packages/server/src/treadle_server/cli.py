"""The commands `treadle server`, `treadle migrate` and `treadle copy`; they import what they need when they run."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import click


def _say(text: str) -> None:
    from treadle.wire.shown import clean_lines

    click.echo(clean_lines(text))


def _settings(**options: Any) -> Any:
    """Return the settings; options override the environment. Raises `click.UsageError` with what is wrong.

    An empty option is usually an unset shell variable: it would mean another database, or the current directory.
    """
    from pydantic import ValidationError

    from treadle_server.settings import Settings, problems_in

    if empty := [_option(name) for name, value in options.items() if value == ""]:
        raise click.UsageError(f"{', '.join(empty)}: must not be empty: give a value, or leave it out")
    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        given = {name: _option(name) for name, value in options.items() if value is not None}
        raise click.UsageError(problems_in(error, given)) from None


def _ended(error: Exception) -> click.ClickException:
    """Return the exception that ends a command: with exit code 2 for an unusable setting, otherwise with 1."""
    from treadle_server.errors import SettingUnusable
    from treadle_server.serving.certificates import NoCertificate

    is_meant = not isinstance(error, SettingUnusable | NoCertificate)
    return (click.ClickException if is_meant else click.UsageError)(str(error))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


_database = click.option(
    "--database-url", help="sqlite:///path or postgresql://…; default: a file in the data directory."
)
_data_dir = click.option("--data-dir", type=click.Path(), help="Where the database and the token are kept.")


@click.command()
@click.option("--host", help="The address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="The port to listen on (7420); 0 picks a free one.")
@_database
@_data_dir
@click.option("--auth", type=click.Choice(["token", "none"]), help="none: no tokens, on a loopback address only.")
@click.option("--tls-cert", type=click.Path(), help="Serve HTTPS: a PEM file with the certificate.")
@click.option("--tls-key", type=click.Path(), help="The certificate's key, unless it is in the same file.")
@click.option("--internal", metavar="MODULE:REGISTRY", help="The executors of @internal jobs: an InternalRegistry.")
def server(**options: Any) -> None:
    """Serve tasks over HTTP and a websocket."""
    import contextlib

    # Ctrl-C while the server still loads; later it handles the signal itself, and ends without an error too.
    with contextlib.suppress(KeyboardInterrupt):
        _run_server(options)


def _run_server(options: dict[str, Any]) -> None:
    import asyncio

    from treadle_server import log
    from treadle_server.serving.connection_limits import TooFewFiles, raise_limit

    settings = _settings(**options)
    log.begin(settings.log_format)
    try:
        raise_limit()  # before the loop, which needs some too
    except TooFewFiles as error:
        raise click.ClickException(str(error)) from None
    calm_collector()
    _keep_freed_memory()
    with _all_private(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


@contextmanager
def _all_private() -> Iterator[None]:
    """Make all files that this process or its libraries create in the block accessible to this user only."""
    import os

    from treadle_server.private import OTHERS

    before = os.umask(OTHERS)
    try:
        yield
    finally:
        os.umask(before)


def calm_collector() -> None:
    """Run the garbage collector less often.

    A batch makes thousands of objects that reference counts free; a collection every 700 objects took a third of a
    bulk submit's time.
    """
    import gc

    gc.set_threshold(50_000, 20, 20)


_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""The numbers of these parameters of `mallopt`, from glibc's malloc.h."""


def _keep_freed_memory() -> None:
    """Let glibc keep up to 16 MB that a batch frees for the next one.

    By default it gives nearly all of it back each time, and the system clears it again: a page for each drained task.
    Without that a drain is 6 % faster on SQLite and 4 % on PostgreSQL (eight pairs each).
    """
    import ctypes
    import sys

    if sys.platform == "linux" and (mallopt := getattr(ctypes.CDLL(None), "mallopt", None)) is not None:
        mallopt(_M_MMAP_THRESHOLD, 4 << 20)
        mallopt(_M_TRIM_THRESHOLD, 16 << 20)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # there are no wheels for Windows
        return None
    return uvloop.new_event_loop


async def _serve(settings: Any) -> None:
    import asyncio
    import contextlib
    import gc
    import os

    from treadle_server.app import create_app
    from treadle_server.errors import TreadleError
    from treadle_server.serving.certificates import NoCertificate, check_certificate
    from treadle_server.serving.server import NotStarted, PortTaken, Server, listen, url_of

    with contextlib.ExitStack() as stack:
        try:
            check_certificate(settings)
            listener = stack.enter_context(contextlib.closing(listen(settings.host, settings.port)))
            serving_app = Server(create_app(settings), settings)
            serving = asyncio.ensure_future(serving_app.serve([listener]))
            await serving_app.until_started(serving)
        except (NoCertificate, NotStarted, PortTaken, TreadleError) as error:
            raise _ended(error) from None
        if not serving_app.started:
            return  # a signal stopped it before it had started
        gc.freeze()  # what was imported and built stays for good: collections need not go through it
        _say_hello(settings, url_of(listener, settings))
        await serving
        if serving_app.has_left:
            # Tasks that wait for the database go on waiting when they are cancelled, to close their connections.
            os._exit(0)
        if serving_app.outdated is not None:
            raise click.ClickException(serving_app.outdated)
        if serving_app.has_failed:
            raise click.ClickException("a part of the server failed, and it can't run without it: see its log")
        _exit_at_further_signals()


def _exit_at_further_signals() -> None:
    """Have a Ctrl-C or SIGTERM end the process at once from now on, because nothing that matters is left to do.

    It would interrupt the loop while that is being closed, and uvloop would print a traceback.
    """
    import os
    import signal

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))


def _say_hello(settings: Any, url: str) -> None:
    """Print where tasks are served; if that can't be written, as on a full disk, they are served all the same.

    With a JSON log it is a log line, because log collectors often collect the standard output too.
    """
    import logging

    try:
        _say_where(settings, url)
    except OSError as error:
        logging.getLogger(__name__).warning("the output can't be written (%s): the server runs without", error.strerror)
        _drop_output()


def _drop_output() -> None:
    """Redirect the standard output to nowhere: Python would fail at exit to write what is still buffered."""
    import os
    import sys

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _say_where(settings: Any, url: str) -> None:
    import logging

    from treadle_server.store.urls import parse_url, shown

    database = shown(parse_url(settings.database_url))
    needs_token = settings.auth == "token"
    token = settings.token_file if needs_token else "not needed: everybody on this machine is the superuser"
    if settings.log_format == "json":
        logging.getLogger(__name__).info("Treadle serves %s; database %s; token %s", url, database, token)
        return
    _say(f"Treadle serves {url}")
    _say(f"  database  {database}")
    _say(f"  token     {token}")
    _say("Press Ctrl-C to stop.")


@click.command()
@_database
@_data_dir
@click.option("--json", "is_json", is_flag=True, help="Print the database and its revision as JSON.")
def migrate(*, is_json: bool, **options: Any) -> None:
    """Bring the database's schema up to date; a server does so too when it starts."""
    import asyncio
    import json

    from treadle_server import log
    from treadle_server.errors import StoreUnavailable, TreadleError
    from treadle_server.store.migrations import HEAD
    from treadle_server.store.urls import parse_url, shown

    settings = _settings(**options)
    try:
        with _all_private(), log.told(settings.log_format):
            asyncio.run(_migrate(settings.database_url))
    except StoreUnavailable as error:
        raise click.ClickException(f"{shown(parse_url(settings.database_url))}: {error.detail}") from None
    except TreadleError as error:
        raise _ended(error) from None
    database = shown(parse_url(settings.database_url))
    _say(json.dumps({"database": database, "revision": HEAD}) if is_json else "The database is up to date.")


async def _migrate(url: str) -> None:
    from treadle_server.store.sqlite.lock import hold_lock
    from treadle_server.store.store import SqlStore

    store = SqlStore(url)
    try:
        with hold_lock(store.url), nullcontext() if store.is_shared else _interrupted_at_once():
            await store.open()
    finally:
        await store.close()


@contextmanager
def _interrupted_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once, which leaves the database as it was.

    asyncio would handle it in the loop, which SQLite blocks until the migration is committed.
    """
    import signal

    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@click.option("--json", "is_json", is_flag=True, help="Print what was copied as JSON.")
def copy(source: str, target: str, *, is_json: bool) -> None:
    """Copy a whole database to another one: FROM and TO are sqlite:///path or postgresql://…, in any combination.

    No server may run on either. TO must be new or empty; FROM is not changed. The copy is read back
    and compared. If it is stopped or killed, nothing is left at TO: start it again. Artifact files stay where they are.
    """
    import asyncio
    import time

    from treadle_server.copying.copy import copy_database
    from treadle_server.copying.shown import Progress, as_json, lines
    from treadle_server.errors import TreadleError

    begun = time.monotonic()
    try:
        with _all_private():
            copied = asyncio.run(copy_database(source, target, Progress()))
    except TreadleError as error:
        raise _ended(error) from None
    except KeyboardInterrupt:
        raise click.ClickException("stopped: nothing was left at TO") from None
    seconds = time.monotonic() - begun
    for line in (as_json(copied, seconds),) if is_json else lines(copied, seconds):
        _say(line)
