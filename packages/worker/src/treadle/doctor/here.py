"""What is looked at on this side of the wire: the settings, this machine's clock, and what is installed."""

import asyncio
import stat
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, entry_points, version

from treadle.errors import ConnectionFailed
from treadle.settings import InvalidSetting, Settings
from treadle.transport.bearer import bearer_of
from treadle.wire.amounts import in_seconds
from treadle.wire.findings import Check, Finding, Seen

ENTRY_POINTS = "treadle.checks"

STEP = 0.25
"""Seconds by which a clock is set, at the least, that is said to have been set: a corrected one drifts by less."""

WATCHED = 0.5
"""Seconds for which the clock is watched."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of group and others."""

DISTRIBUTIONS = ("treadle", "treadle-server", "treadle-tui", "treadle-bench")


def checks() -> list[Check]:
    """Return the checks of this side, those that other distributions add among them."""
    return [
        Check("settings", settings),
        Check("installed", installed),
        Check("steps", steps),
        *added(),
    ]


def added() -> list[Check]:
    """Return what installed distributions add; where none does, a check that says where the rest is seen."""
    found = entry_points(group=ENTRY_POINTS)
    if not found:
        return [Check("machine", _elsewhere)]
    return [check for entry in found for check in entry.load()()]


def _elsewhere() -> Seen:
    told = "treadle-server is not installed here: disk, files and database are looked at where it is"
    return [Finding("machine", "ok", told)]


def settings() -> Seen:
    """Look which server and token are meant, and whether the token is kept from others, and shown to the server."""
    try:
        settings = Settings()
        local_token = settings.read_local_token()
    except InvalidSetting as error:
        return [Finding("settings", "fail", str(error), "see docs/settings.md")]
    path = settings.token_path
    if settings.token is not None:
        source = "the token of TREADLE_TOKEN"
    elif local_token is None:
        told = f"{settings.url}, without a token: there is no {path}"
        return [Finding("settings", "warn", told, "set TREADLE_TOKEN")]
    elif path.stat().st_mode & OTHERS:
        return [Finding("settings", "warn", f"others can read {path}, a superuser's token", f"chmod 600 {path}")]
    elif (withheld := _withheld(settings)) is not None:
        return [Finding("settings", "warn", withheld)]
    else:
        source = f"the token in {path}"
    return [Finding("settings", "ok", f"{settings.url}, {source}")]


def _withheld(settings: Settings) -> str | None:
    """Return why one of the addresses is not shown the local token; None where all are, or are not known by name."""
    bearer = bearer_of(None, settings)
    for url in settings.urls:
        # A name that leads nowhere is what the next check finds.
        with suppress(ConnectionFailed):
            if (why := bearer.ways_now(url)[0].withheld) is not None:
                return why
    return None


def versions_here() -> dict[str, str]:
    """Return the versions of Treadle's distributions that are installed here, by name."""
    found: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def series(version: str) -> str:
    """Return the part of a version within which all understand each other: 0.1 of 0.1.3."""
    return ".".join(version.split(".")[:2])


def installed() -> Seen:
    """Look whether SDK, server, dashboard and bench are of one version."""
    found = versions_here()
    told = ", ".join(f"{name} {version}" for name, version in found.items())
    if len(set(found.values())) > 1:
        return [Finding("installed", "warn", f"{told}: they are made for each other in one version",
                        f"pip install --upgrade {' '.join(found)}")]  # fmt: skip
    return [Finding("installed", "ok", told)]


async def steps() -> Seen:
    """Look whether this machine's time of day is set while it is watched."""
    before = time.time() - time.monotonic()
    await asyncio.sleep(WATCHED)
    step = time.time() - time.monotonic() - before
    if abs(step) >= STEP:
        return [Finding("steps", "warn", f"this machine's clock was set by {step:+.1f} s within {in_seconds(WATCHED)}:"
                        " times in logs mislead, and a server here stamps every lease anew",
                        "let one NTP daemon correct it slowly, and nothing else set it")]  # fmt: skip
    return [Finding("steps", "ok", f"this machine's clock was not set within {in_seconds(WATCHED)}")]
