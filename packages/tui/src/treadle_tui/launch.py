"""Assembles the dashboard from the configuration, the command line, and a server or a recording."""

import codecs
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treadle_tui.core.setup.config import Config, ConfigError, Server, default_path, read_config

if TYPE_CHECKING:
    from treadle.encryption.sealer import Sealer
    from treadle.transport.bearer import Bearer
    from treadle_tui.app import Dashboard
    from treadle_tui.core.setup.connection import Connection

CONFIG = "TREADLE_TUI_CONFIG"
"""The environment variable that names the configuration file."""


@dataclass(frozen=True, kw_only=True)
class LaunchOptions:
    """The command line's options, which override the configuration file."""

    wanted: str = ""
    url: str | None = None
    token: str | None = None
    room: str | None = None
    read_only: bool = False
    ascii_only: bool = False
    theme: str | None = None
    config: Path | None = None
    context: str | None = None
    record: Path | None = None
    replay: Path | None = None
    speed: float = 1.0


def load_config(named: Path | None) -> Config:
    """Read the file named by the option or the environment, or else the default one. Raises `ConfigError`."""
    path = named or (Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None)
    return read_config(path or default_path(), must_exist=path is not None)


def chosen_server(options: LaunchOptions, config: Config) -> Server:
    """Return the server to connect to: by context, by address, the configuration's default, or the local one.

    Raises `ConfigError` and `InvalidSetting`.
    """
    from treadle.settings import Settings, split_urls

    if options.context is not None and options.url is not None:
        raise ConfigError("--context and --url can't be used together: both say where the server is")
    if options.context is not None:
        return config.server(options.context)
    if options.url is None and not os.environ.get("TREADLE_URL") and config.context is not None:
        return config.server(config.context)
    urls = Settings().urls if options.url is None else split_urls(options.url)
    return Server("", urls)


def bearer_for(server: Server, options: LaunchOptions) -> "Bearer":
    """Return the source of the token to send. Raises `ConfigError` and `InvalidSetting` if it can't be read.

    A token given by hand, in the environment, or in the file that the configuration names for the server goes to every
    address of the server. The token written by a local server is only sent to this machine.
    """
    from treadle.settings import Settings
    from treadle.transport.bearer import Bearer, bearer_of

    if options.token is None and server.token_file is not None:
        # Read it once here, so that a bad file is reported before the screen opens; later errors appear in the banner.
        server.read_token()
        return Bearer(everywhere=lambda: _later(server))
    return bearer_of(options.token, Settings())


def _later(server: Server) -> str | None:
    from treadle.settings import InvalidSetting

    try:
        return server.read_token()
    except ConfigError as error:
        raise InvalidSetting(str(error)) from None


def live(server: Server, options: LaunchOptions, *, record: Path | None = None) -> "Connection":
    """Return a live connection to a server. Raises `ConfigError`, `InvalidSetting` and `RecordingError`."""
    from treadle_tui.core.live.feed import Link
    from treadle_tui.core.live.link import SessionLink
    from treadle_tui.core.live.recorder import Recorder, RecordingLink
    from treadle_tui.core.setup.connection import Connection

    link: Link = SessionLink(server.urls, bearer_for(server, options))
    shown = server.name or server_name_of(server.urls[0])
    recorder = None if record is None else Recorder(record, server_name=shown)
    return Connection(
        link=link if recorder is None else RecordingLink(link, recorder),
        server_name=shown,
        context=server.name or None,
        room=options.room or server.room,
        read_only=options.read_only or server.read_only,
        production=server.production,
        recorder=recorder,
    )


def replayed(path: Path, speed: float) -> "Connection":
    """Return a connection that replays a recording. Raises `RecordingError`."""
    from treadle_tui.core.live.recording import open_recording
    from treadle_tui.core.live.replay import Player
    from treadle_tui.core.setup.connection import Connection

    player = Player(open_recording(path), speed=speed)
    name = str(player.recording.header.get("place", "recording"))
    return Connection(link=player, server_name=name, read_only=True, clock=player, player=player)


def sealer() -> "Sealer":
    """Return a sealer with the environment's keys, if any, to open encrypted tasks. Raises `InvalidSetting`."""
    from treadle.encryption.keys import codec_of
    from treadle.encryption.sealer import Sealer
    from treadle.settings import Settings

    return Sealer(codec_of(Settings()))


def dashboard(options: LaunchOptions) -> "Dashboard":
    """Return the dashboard, ready to run. Raises `ConfigError`, `InvalidSetting` and `RecordingError`."""
    from treadle_tui.app import Dashboard
    from treadle_tui.core.live.feed import Feed
    from treadle_tui.core.setup.app_state import AppState
    from treadle_tui.core.state.model import Model

    config = load_config(options.config)
    if options.replay is not None:
        connection = replayed(options.replay, options.speed)
    else:
        connection = live(chosen_server(options, config), options, record=options.record)
    model = Model(connection.clock, sealer())
    return Dashboard(
        model,
        Feed(model, connection.link),
        connection,
        app_state=AppState(
            keymap=config.keymap,
            contexts=tuple(config.contexts),
            views=config.views,
            notify=config.notify,
            trace_url=config.trace_url,
        ),
        # A token given by hand is only for the server that was named by hand.
        connect=lambda name: live(config.server(name), LaunchOptions(read_only=options.read_only, room=options.room)),
        theme=options.theme or config.theme,
        ascii_only=options.ascii_only or config.ascii_only or not _has_every_character(),
        wanted=options.wanted,
    )


def _has_every_character() -> bool:
    """Return whether the output can show all of Unicode: a terminal with another encoding would stay blank.

    A browser can, whatever the encoding of the pipe to the process that serves it. The Linux console has only the 512
    characters of its font. Python writes UTF-8 even where LC_ALL says that only ASCII is supported.
    """
    out = sys.__stdout__
    if out is None or not out.isatty():
        return True
    told_otherwise = os.environ.get("LC_ALL") in {"C", "POSIX"} or os.environ.get("TERM") == "linux"
    return not told_otherwise and codecs.lookup(out.encoding).name.startswith("utf")


def arguments(options: LaunchOptions) -> list[str]:
    """Return the command-line arguments that stand for these options, except the token."""
    told = {
        "--url": options.url,
        "--room": options.room,
        "--context": options.context,
        "--config": options.config,
        "--theme": options.theme,
        "--replay": options.replay,
        "--speed": None if options.replay is None else options.speed,
    }
    flags = {"--read-only": options.read_only, "--ascii": options.ascii_only}
    # Use "=", so that no value is taken for an option.
    named = [f"{option}={value}" for option, value in told.items() if value is not None]
    return [*named, *(flag for flag, given in flags.items() if given), "--", options.wanted]


def server_name_of(url: str) -> str:
    """Return the short name of the server at `url`: `local`, or its host and port."""
    from urllib.parse import urlsplit

    from treadle.transport.addresses import is_loopback

    split = urlsplit(url)
    return "local" if is_loopback(split.hostname) else split.netloc.rpartition("@")[2]


def run(options: LaunchOptions) -> int:
    """Run the dashboard until the user leaves, print a summary of the recording if there is one; return the exit code.

    Raises the same errors as `dashboard`.
    """
    from treadle.cli.show import say

    app = dashboard(options)
    app.run()
    if (recorder := app.connection.recorder) is not None:
        say(recorder.summary(), err=True)
    return app.return_code or 0
