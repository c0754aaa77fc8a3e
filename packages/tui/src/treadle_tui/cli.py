"""The command `treadle watch`; imports nothing heavy until it runs, and Textual only for the screen."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable

    from treadle.wire.tasks import TaskFilter


@click.command()
@click.argument("wanted", metavar="[FILTER]", required=False, default="")
@click.option("--url", help="The server; TREADLE_URL, or the local one.")
@click.option("--token", help="TREADLE_TOKEN, or the file that a local server writes.")
@click.option("--room", help="Show only what was submitted from this room.")
@click.option("--read-only", is_flag=True, help="Only look: no key changes anything.")
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters alone.")
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON instead.")
def watch(
    wanted: str,
    url: str | None,
    token: str | None,
    room: str | None,
    read_only: bool,  # noqa: FBT001 - click passes it by name
    ascii_only: bool,  # noqa: FBT001
    as_json: bool,  # noqa: FBT001
) -> None:
    """Watch queues, tasks and workers live, and steer them.

    FILTER narrows the tasks, as in `status:pending,running target:cam-1 some text`.
    """
    from treadle.filters import FilterError, parse

    try:
        chosen = parse(wanted)
    except FilterError as error:
        raise click.BadParameter(str(error), param_hint="FILTER") from None
    urls, read_token = _connection(url, token)
    if as_json:
        _print_events(urls, read_token, room=room, wanted=chosen if wanted.strip() else None)
        return

    from treadle_tui.app import Dashboard
    from treadle_tui.core.feed import Feed
    from treadle_tui.core.link import SessionLink
    from treadle_tui.core.model import Model

    model = Model()
    Dashboard(
        model,
        Feed(model, SessionLink(urls, read_token)),
        place=place_of(urls[0]),
        read_only=read_only,
        ascii_only=ascii_only,
        room=room,
        wanted=wanted,
    ).run()


def _connection(url: str | None, token: str | None) -> "tuple[tuple[str, ...], Callable[[], str | None]]":
    from pydantic import ValidationError

    from treadle.errors import TreadleError
    from treadle.settings import Settings, split_urls

    try:
        settings = Settings()
        urls = split_urls(url) if url is not None else settings.urls
        # Read once here, so that what is wrong with the file is said before the screen is up.
        settings.read_token()
    except ValidationError as error:
        raise click.UsageError("; ".join(problem["msg"] for problem in error.errors())) from None
    except TreadleError as error:
        raise click.UsageError(str(error)) from None
    return urls, (lambda: token) if token is not None else settings.read_token


def _print_events(
    urls: tuple[str, ...], read_token: "Callable[[], str | None]", *, room: str | None, wanted: "TaskFilter | None"
) -> None:
    import asyncio

    from treadle.errors import TreadleError
    from treadle_tui.core.link import SessionLink
    from treadle_tui.core.ndjson import Stream

    async def stream() -> None:
        await Stream(
            SessionLink(urls, read_token),
            write=click.echo,
            complain=lambda text: click.echo(text, err=True),
            room=room,
            wanted=wanted,
        ).run()

    try:
        asyncio.run(stream())
    except TreadleError as error:
        raise click.ClickException(str(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


def place_of(url: str) -> str:
    """Return what people call the server at `url`: `local`, or its host and port."""
    from urllib.parse import urlsplit

    from treadle.reaching import is_loopback

    split = urlsplit(url)
    return "local" if is_loopback(split.hostname) else split.netloc
