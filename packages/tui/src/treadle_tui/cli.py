"""The command `treadle watch`. Imports nothing heavy until it runs, and Textual only to show the screen."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from treadle.cli.numbers import Number
from treadle.cli.texts import NAME, GivenPath
from treadle_tui.core.setup.theme_names import THEMES

if TYPE_CHECKING:
    from treadle_tui.launch import LaunchOptions

WEB_PORT = 7421


@click.command()
@click.argument("wanted", metavar="[FILTER]...", nargs=-1, callback=lambda _ctx, _param, words: " ".join(words))
@click.option("--url", type=NAME, help="The server; TREADLE_URL, or the local one.")
@click.option("--token", type=NAME, help="TREADLE_TOKEN, or the file that a local server writes.")
@click.option("--room", type=NAME, help="Show only what was submitted from this room.")
@click.option("--read-only", is_flag=True, help="Disable all keys that change anything.")
@click.option("--context", type=NAME, help="A server from the configuration file, by name.")
@click.option("--contexts", is_flag=True, help="List the configuration file's servers.")
@click.option("--config", type=GivenPath(path_type=Path), help="The configuration file; TREADLE_TUI_CONFIG.")
@click.option(
    "--theme",
    type=click.Choice(THEMES),
    help="The colours; default: what the terminal can show.",
)
@click.option("--ascii", "ascii_only", is_flag=True, help="Draw with ASCII characters only.")
@click.option("--json", "as_json", is_flag=True, help="Print each change as a line of JSON instead.")
@click.option("--record", type=GivenPath(path_type=Path), metavar="FILE", help="Record what is shown to a file.")
@click.option("--replay", type=GivenPath(path_type=Path), metavar="FILE", help="Replay a recording; needs no server.")
@click.option("--speed", type=Number(0.1, 100), default=1.0, show_default=True, help="With --replay: the speed factor.")
@click.option("--web", is_flag=True, help="Serve the dashboard to a browser instead.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --web: the address to serve on.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=WEB_PORT,
    show_default=True,
    help="With --web: the port to serve on.",
)
@click.option("--public", is_flag=True, help="With --web: allow an address that other machines can reach.")
@click.option("--keys", is_flag=True, help="Print every key and command as a table, and exit.")
@click.pass_context
def watch(ctx: click.Context, /, **options: object) -> None:
    """Watch queues, tasks and workers live, and act on them.

    FILTER narrows the tasks, as in `status:failed ended:<1h target:cam-1 some text`.
    """
    from treadle.errors import TreadleError
    from treadle.settings import InvalidSetting
    from treadle_tui.core.live.recorder import RecordingError
    from treadle_tui.core.setup.config import ConfigError
    from treadle_tui.launch import LaunchOptions

    launch_options = LaunchOptions(**{name: ctx.params[name] for name in LaunchOptions.__dataclass_fields__})
    _refuse_contradictions(ctx)
    try:
        _begin(ctx, launch_options)
    except (ConfigError, InvalidSetting, RecordingError) as error:
        raise click.UsageError(str(error)) from None
    except TreadleError as error:
        raise click.ClickException(str(error)) from None


def _refuse_contradictions(ctx: click.Context) -> None:
    """Raise click's `UsageError` for options that contradict each other, and `BadParameter` for an invalid filter."""
    from treadle.filters import FilterError, parse

    try:
        parse(ctx.params["wanted"])
    except FilterError as error:
        raise click.BadParameter(str(error), param_hint="FILTER") from None
    given = [name for name in ("as_json", "web", "replay", "record") if ctx.params[name]]
    for one, other in (("as_json", "web"), ("as_json", "replay"), ("as_json", "record"), ("replay", "record")):
        if one in given and other in given:
            first, second = (f"--{name.removeprefix('as_')}" for name in (one, other))
            raise click.UsageError(f"{first} and {second} can't be used together: remove one of them")
    if "web" in given and "record" in given:
        raise click.UsageError("--record writes one session, but --web has one for each page: record in a terminal")
    for name in ("host", "port", "public"):
        if "web" not in given and ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} needs --web")


def _begin(ctx: click.Context, options: "LaunchOptions") -> None:
    from treadle.cli.show import say_result
    from treadle_tui import launch

    params = ctx.params
    if params["keys"]:
        from treadle_tui.core.verbs.key_table import key_table

        say_result(key_table(launch.load_config(options.config).keymap).removesuffix("\n"))
    elif params["contexts"]:
        _list_contexts(options)
    elif params["as_json"]:
        _print_events(options)
    elif params["web"]:
        _serve(options, host=params["host"], port=params["port"], public=params["public"])
    else:
        from treadle_tui.guard import guarded, is_on_terminal

        # In a page of --web, textual-serve's driver takes the place of a terminal.
        if not is_on_terminal() and not os.environ.get("TEXTUAL_DRIVER"):
            raise click.UsageError(
                "the dashboard needs a terminal, and standard input or output is not one, or can't draw (TERM=dumb):"
                " `treadle watch --json` prints each change as a line, and --web serves the dashboard to a browser"
            )
        # Fork before anything heavy is imported, so that the parent stays small.
        raise SystemExit(guarded(lambda: launch.run(options)))


def _list_contexts(options: "LaunchOptions") -> None:
    from treadle.cli.show import say
    from treadle_tui.launch import load_config

    config = load_config(options.config)
    if not config.contexts:
        say("No contexts: the configuration file has none.")
    for name, server in config.contexts.items():
        marks = [word for word in ("production", "read_only") if getattr(server, word)]
        words = ", ".join([*marks, *(["default"] if name == config.context else [])])
        say(f"{name:<16} {', '.join(server.urls)}{f'  ({words})' if words else ''}")


def _print_events(options: "LaunchOptions") -> None:
    import asyncio

    from treadle.cli.show import say
    from treadle.filters import is_relative, parse
    from treadle.wire.shown import clean_json
    from treadle_tui import launch
    from treadle_tui.core.live.link import SessionLink
    from treadle_tui.core.live.ndjson import Stream

    server = launch.chosen_server(options, launch.load_config(options.config))

    wanted = parse(options.wanted)

    async def stream() -> None:
        await Stream(
            SessionLink(server.urls, launch.bearer_for(server, options)),
            write=lambda line: click.echo(clean_json(line)),
            complain=lambda text: say(text, err=True),
            room=options.room or server.room,
            wanted=(lambda: parse(options.wanted) if is_relative(options.wanted) else wanted)
            if options.wanted.strip()
            else None,
            sealer=launch.sealer(),
        ).run()

    try:
        asyncio.run(stream())
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    # The stream ends by itself only when nobody reads its output any more; handle that as every command does.
    raise BrokenPipeError


def _serve(options: "LaunchOptions", *, host: str, port: int, public: bool) -> None:
    from treadle_tui import launch

    try:
        from treadle_tui.web import PublicAddress, serve_web
    except ModuleNotFoundError as error:
        raise click.UsageError(f"--web needs textual-serve ({error}): pip install 'treadle-tui[web]'") from None
    if options.replay is None:
        # Check the token here, where the error is visible, instead of in the process of the first page.
        launch.bearer_for(launch.chosen_server(options, launch.load_config(options.config)), options)
    try:
        serve_web(launch.arguments(options), host=host, port=port, public=public, token=options.token)
    except PublicAddress as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"can't serve on {host}:{port}: {error.strerror or error}") from None
