"""Checks of this side: the settings, this machine's clock, and what is installed."""

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
"""The least seconds by which a clock jumps when it is set; one that is corrected gradually drifts by less."""

WATCHED = 0.5
"""Seconds for which the clock is watched."""

OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of group and others."""

DISTRIBUTIONS = ("treadle", "treadle-server", "treadle-tui", "treadle-bench")


def checks() -> list[Check]:
    """Return the checks of this side, including those that other distributions add."""
    return [
        Check("settings", settings),
        Check("installed", installed),
        Check("steps", steps),
        *added(),
    ]


def added() -> list[Check]:
    """Return the checks of installed distributions; without any, one that says where to find the rest."""
    found = entry_points(group=ENTRY_POINTS)
    if not found:
        return [Check("machine", _elsewhere)]
    return [check for entry in found for check in entry.load()()]


def _elsewhere() -> Seen:
    told = "treadle-server is not installed here: disk, files and database are checked where it is"
    return [Finding("machine", "ok", told)]


def settings() -> Seen:
    """Check which server and token are used, and whether the token is kept from others, and sent to the server."""
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
    """Return why the local token is not sent to one of the addresses; None if it is, or if names can't be resolved."""
    bearer = bearer_of(None, settings)
    for url in settings.urls:
        # A name that can't be resolved is reported by the next check.
        with suppress(ConnectionFailed):
            if (why := bearer.ways_now(url)[0].withheld) is not None:
                return why
    return None


def versions_here() -> dict[str, str]:
    """Return the installed versions of Treadle's distributions, by name."""
    found: dict[str, str] = {}
    for name in DISTRIBUTIONS:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def series(version: str) -> str:
    """Return the part of a version within which all versions work together: 0.1 of 0.1.3."""
    return ".".join(version.split(".")[:2])


def installed() -> Seen:
    """Check whether SDK, server, dashboard and bench have the same version."""
    found = versions_here()
    told = ", ".join(f"{name} {version}" for name, version in found.items())
    if len(set(found.values())) > 1:
        return [Finding("installed", "warn", f"{told}: they need the same version",
                        f"pip install --upgrade {' '.join(found)}")]  # fmt: skip
    return [Finding("installed", "ok", told)]


async def steps() -> Seen:
    """Check whether this machine's time of day is set while it is watched."""
    before = time.time() - time.monotonic()
    await asyncio.sleep(WATCHED)
    step = time.time() - time.monotonic() - before
    if abs(step) >= STEP:
        return [Finding("steps", "warn", f"this machine's clock was set by {step:+.1f} s within {in_seconds(WATCHED)}:"
                        " times in logs are misleading, and a server here re-stamps every lease",
                        "let one NTP daemon correct it gradually, and nothing else set it")]  # fmt: skip
    return [Finding("steps", "ok", f"this machine's clock was not set within {in_seconds(WATCHED)}")]
