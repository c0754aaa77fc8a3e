"""The commands `treadle server` and `treadle migrate`; what they need is loaded when they run."""

from pathlib import Path
from typing import Any

import click


def _settings(**options: Any) -> Any:
    """Return the settings: what the command line gives goes before the environment. Exits with what is wrong."""
    from pydantic import ValidationError

    from treadle_server.settings import Settings

    try:
        return Settings(**{name: value for name, value in options.items() if value is not None})
    except ValidationError as error:
        problems = [f"{'.'.join(str(p) for p in item['loc'])}: {item['msg']}".lstrip(": ") for item in error.errors()]
        raise click.UsageError("; ".join(problems).replace("Value error, ", "")) from None


_database = click.option(
    "--database-url", help="sqlite:///path or postgresql://…; default: a file in the data directory."
)
_data_dir = click.option(
    "--data-dir", type=click.Path(path_type=Path), help="Where the database and the token are kept."
)


@click.command()
@click.option("--host", help="The address to listen on (127.0.0.1).")
@click.option("--port", type=int, help="The port to listen on (7420); 0 picks a free one.")
@_database
@_data_dir
@click.option("--auth", type=click.Choice(["token", "none"]), help="none: without tokens, on a loopback address only.")
@click.option("--tls-cert", type=click.Path(path_type=Path), help="Serve HTTPS: a PEM file with the certificate.")
@click.option("--tls-key", type=click.Path(path_type=Path), help="Its key, unless it stands in the same file.")
@click.option("--internal", metavar="MODULE:REGISTRY", help="The executors of @internal jobs: an InternalRegistry.")
def server(**options: Any) -> None:
    """Serve tasks over HTTP and a websocket."""
    import asyncio
    import logging

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    for chatty in ("alembic", "httpx"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    settings = _settings(**options)
    _calm_collector()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(settings))


def _calm_collector() -> None:
    """Have the collector of cycles look less often.

    A batch makes thousands of objects that are freed by their counts; looking through them for cycles every 700 took a
    third of a bulk submit's time.
    """
    import gc

    gc.set_threshold(50_000, 20, 20)


def _loop_factory() -> Any:
    try:
        import uvloop
    except ImportError:  # it has no wheels for Windows
        return None
    return uvloop.new_event_loop


async def _serve(settings: Any) -> None:
    import asyncio
    import contextlib
    import gc

    from treadle_server.app import create_app
    from treadle_server.errors import TreadleError
    from treadle_server.server import NoCertificate, NotStarted, PortTaken, Server, check_certificate, listen, url_of

    try:
        check_certificate(settings)
        listener = listen(settings.host, settings.port)
        app = create_app(settings)
    except (NoCertificate, PortTaken, TreadleError) as error:
        raise click.ClickException(str(error)) from None
    with contextlib.closing(listener):
        serving_app = Server(app, settings)
        serving = asyncio.ensure_future(serving_app.serve([listener]))
        try:
            await serving_app.until_started(serving)
        except NotStarted as error:
            raise click.ClickException(str(error)) from None
        gc.freeze()  # what was imported and built is there to stay: no collection need look through it
        _say_hello(settings, url_of(listener, settings))
        await serving


def _say_hello(settings: Any, url: str) -> None:
    from sqlalchemy.engine import make_url

    click.echo(f"Treadle serves {url}")
    click.echo(f"  database  {make_url(settings.database_url).render_as_string()}")
    if settings.auth == "token":
        click.echo(f"  token     {settings.token_file}")
    else:
        click.echo("  token     none is needed: everybody on this machine is the superuser")
    click.echo("Press Ctrl-C to stop.")


@click.command()
@_database
@_data_dir
def migrate(**options: Any) -> None:
    """Bring the database's schema up to date; a server does so too when it starts."""
    import asyncio

    from treadle_server.errors import TreadleError

    settings = _settings(**options)
    try:
        asyncio.run(_migrate(settings.database_url))
    except TreadleError as error:
        raise click.ClickException(error.detail) from None
    click.echo("The database is up to date.")


async def _migrate(url: str) -> None:
    from treadle_server.store.store import SqlStore

    store = SqlStore(url)
    try:
        await store.open()
    finally:
        await store.close()
