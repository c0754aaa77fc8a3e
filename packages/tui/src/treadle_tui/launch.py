"""Puts the dashboard together: the configuration, the server or the recording, and what of it goes where."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treadle_tui.core.config import Config, ConfigError, Place, default_path, read_config

if TYPE_CHECKING:
    from treadle.transport.bearer import Bearer
    from treadle_tui.app import Dashboard
    from treadle_tui.core.sitting import Sitting

CONFIG = "TREADLE_TUI_CONFIG"
"""The environment variable that names the configuration file."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """The command line's options; they go before the configuration file."""

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
    """Read the file that the option or the environment names, or else the usual one. Raises `ConfigError`."""
    path = named or (Path(os.environ[CONFIG]) if os.environ.get(CONFIG) else None)
    return read_config(path or default_path(), must_exist=path is not None)


def chosen_place(wishes: Wishes, config: Config) -> Place:
    """Return the server to look at: by name, by address, or the configuration's first one, or the local one.

    Raises `ConfigError` and `InvalidSetting`.
    """
    from treadle.settings import Settings, split_urls

    if wishes.context is not None and wishes.url is not None:
        raise ConfigError("--context and --url both say where the server is: give one of them")
    if wishes.context is not None:
        return config.place(wishes.context)
    if wishes.url is None and not os.environ.get("TREADLE_URL") and config.context is not None:
        return config.place(config.context)
    urls = Settings().urls if wishes.url is None else split_urls(wishes.url)
    return Place("", urls)


def bearer_for(place: Place, wishes: Wishes) -> "Bearer":
    """Return what says which token is shown. Raises `ConfigError` and `InvalidSetting` when it can't be read.

    One given by hand, or in the file that the configuration names for the place, or in the environment, goes to every
    address of the place; the one that a local server wrote goes to this machine alone.
    """
    from treadle.settings import Settings
    from treadle.transport.bearer import Bearer, bearer_of

    if wishes.token is None and place.token_file is not None:
        # Once here, so that what is wrong with the file is said before the screen is up; later the banner says it.
        place.read_token()
        return Bearer(everywhere=lambda: _later(place))
    return bearer_of(wishes.token, Settings())


def _later(place: Place) -> str | None:
    from treadle.settings import InvalidSetting

    try:
        return place.read_token()
    except ConfigError as error:
        raise InvalidSetting(str(error)) from None


def live(place: Place, wishes: Wishes, *, record: Path | None = None) -> "Sitting":
    """Return a sitting at a server. Raises `ConfigError`, `InvalidSetting` and `RecordingError`."""
    from treadle_tui.core.feed import Link
    from treadle_tui.core.link import SessionLink
    from treadle_tui.core.record import Recorder, RecordingLink
    from treadle_tui.core.sitting import Sitting

    link: Link = SessionLink(place.urls, bearer_for(place, wishes))
    shown = place.name or place_of(place.urls[0])
    recorder = None if record is None else Recorder(record, place=shown)
    return Sitting(
        link=link if recorder is None else RecordingLink(link, recorder),
        place=shown,
        context=place.name or None,
        room=wishes.room or place.room,
        read_only=wishes.read_only or place.read_only,
        production=place.production,
        recorder=recorder,
    )


def replayed(path: Path, speed: float) -> "Sitting":
    """Return a sitting at a recording. Raises `RecordingError`."""
    from treadle_tui.core.recording import open_recording
    from treadle_tui.core.replay import Player
    from treadle_tui.core.sitting import Sitting

    player = Player(open_recording(path), speed=speed)
    place = str(player.recording.header.get("place", "recording"))
    return Sitting(link=player, place=place, read_only=True, clock=player, player=player)


def dashboard(wishes: Wishes) -> "Dashboard":
    """Return the dashboard, ready to run. Raises `ConfigError`, `InvalidSetting` and `RecordingError`."""
    from treadle_tui.app import Dashboard
    from treadle_tui.core.feed import Feed
    from treadle_tui.core.model import Model
    from treadle_tui.core.shell import Shell

    config = load_config(wishes.config)
    if wishes.replay is not None:
        sitting = replayed(wishes.replay, wishes.speed)
    else:
        sitting = live(chosen_place(wishes, config), wishes, record=wishes.record)
    model = Model(sitting.clock)
    return Dashboard(
        model,
        Feed(model, sitting.link),
        sitting=sitting,
        shell=Shell(keymap=config.keymap, contexts=tuple(config.contexts)),
        # A token that was given by hand is meant for the server that was named by hand.
        reach=lambda name: live(config.place(name), Wishes(read_only=wishes.read_only, room=wishes.room)),
        theme=wishes.theme or config.theme,
        ascii_only=wishes.ascii_only or config.ascii_only,
        wanted=wishes.wanted,
    )


def arguments(wishes: Wishes) -> list[str]:
    """Return the words of the command line that mean these wishes; the token is not among them."""
    told = {
        "--url": wishes.url,
        "--room": wishes.room,
        "--context": wishes.context,
        "--config": wishes.config,
        "--theme": wishes.theme,
        "--replay": wishes.replay,
        "--speed": None if wishes.replay is None else wishes.speed,
    }
    flags = {"--read-only": wishes.read_only, "--ascii": wishes.ascii_only}
    # With equals signs, so that no value is ever taken for an option.
    named = [f"{option}={value}" for option, value in told.items() if value is not None]
    return [*named, *(flag for flag, given in flags.items() if given), "--", wishes.wanted]


def place_of(url: str) -> str:
    """Return what people call the server at `url`: `local`, or its host and port."""
    from urllib.parse import urlsplit

    from treadle.transport.addresses import is_loopback

    split = urlsplit(url)
    return "local" if is_loopback(split.hostname) else split.netloc.rpartition("@")[2]


def run(wishes: Wishes) -> int:
    """Show the dashboard until its reader leaves; return the exit code. Raises as `dashboard` does."""
    app = dashboard(wishes)
    app.run()
    return app.return_code or 0
