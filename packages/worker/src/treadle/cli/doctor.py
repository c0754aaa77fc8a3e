"""`treadle doctor`: what works between here and the server, and what to do about what doesn't."""

import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

import click

from treadle.cli.show import as_json, open_client, print_json, run, say, styled

if TYPE_CHECKING:
    from treadle.client.client import Client
    from treadle.settings import Settings

PINGS = 20
SLOW = 0.25
"""Seconds of a round trip from which it is worth a remark."""

SKEW = 5.0
"""Seconds by which clocks may differ before it matters: leases are the store's clock's, logs are this machine's."""

Grade = Literal["ok", "warning", "failed"]


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    check: str
    grade: Grade
    detail: str


Check = Callable[["Client"], Awaitable[Finding]]


@click.command()
@as_json
def doctor(*, is_json: bool) -> None:
    """Check that the server is reached, takes the token, speaks this version, and opens a socket; exit 1 if not."""
    findings = run(examine())
    if is_json:
        print_json([asdict(finding) for finding in findings])
    else:
        for finding in findings:
            mark, colour = {"ok": ("ok", "green"), "warning": ("!!", "yellow"), "failed": ("XX", "red")}[finding.grade]
            say(styled(mark, fg=colour), f" {finding.check:<10} {finding.detail}")
    if any(finding.grade == "failed" for finding in findings):
        raise SystemExit(1)


async def examine() -> list[Finding]:
    """Make the checks in their order; the first failure ends them, for the later ones would fail of it too."""
    from treadle.errors import TreadleError

    findings: list[Finding] = [_settings(), *_files()]
    async with open_client() as client:
        for name, check in CHECKS.items():
            try:
                findings.append(await check(client))
            except TreadleError as error:
                findings.append(Finding(name, "failed", str(error)))
                break
    return findings


def _settings() -> Finding:
    from treadle.settings import Settings

    settings = Settings()
    path = settings.token_path
    if settings.token is not None:
        source = "the token of TREADLE_TOKEN"
    elif settings.read_local_token() is None:
        return Finding("settings", "warning", f"{settings.url}, without a token: there is no {path}; set TREADLE_TOKEN")
    elif path.stat().st_mode & 0o077:
        return Finding("settings", "warning", f"others can read {path}: chmod 600 it")
    elif (withheld := _withheld(settings)) is not None:
        return Finding("settings", "warning", withheld)
    else:
        source = f"the token in {path}"
    return Finding("settings", "ok", f"{settings.url}, {source}")


def _files() -> list[Finding]:
    """Look whether a local server's files are this user's alone; nothing is found where there are none."""
    from treadle.settings import Settings

    directory = Settings().data_dir
    if not directory.is_dir():
        return []
    for path in (directory, *sorted(directory.iterdir())):
        found = path.lstat()
        if hasattr(os, "geteuid") and found.st_uid not in {os.geteuid(), 0}:
            return [Finding("files", "warning", f"{path} belongs to another user, who may read the tasks: chown it")]
        if not path.is_symlink() and found.st_mode & 0o077:
            wanted = "700" if path.is_dir() else "600"
            return [Finding("files", "warning", f"others can get at {path}: chmod {wanted} it")]
    return [Finding("files", "ok", f"{directory} is this user's alone")]


def _withheld(settings: "Settings") -> str | None:
    """Return why one of the addresses is not shown the local token; None where all are, or are not known by name."""
    from treadle.errors import ConnectionFailed
    from treadle.transport.bearer import bearer_of

    bearer = bearer_of(None, settings)
    for url in settings.urls:
        # A name that leads nowhere is what the next check finds.
        with suppress(ConnectionFailed):
            if (why := bearer.ways_now(url)[0].withheld) is not None:
                return why
    return None


async def _reach(client: "Client") -> Finding:
    from treadle.version import __version__

    health = await client.http().request("GET", "/v1/healthz")
    version = health.get("version", "unknown")
    unwell = {name: state for name, state in health.get("services", {}).items() if state not in {"ok", "standby"}}
    if unwell:
        # A service may go on at its next turn; without a store that can be written nothing does.
        told = ", ".join(f"{name}: {state}" for name, state in unwell.items())
        grade: Grade = "failed" if unwell.get("store", "starting") != "starting" else "warning"
        return Finding("server", grade, f"version {version}, not well: {told}")
    if version.split(".")[:2] != __version__.split(".")[:2]:
        return Finding("server", "warning", f"version {version}, and this is {__version__}: bring them together")
    return Finding("server", "ok", f"version {version}")


async def _token(client: "Client") -> Finding:
    who = await client.whoami()
    return Finding(
        "token", "ok", f"{who.user}{', a superuser' if who.superuser else f' with {len(who.scopes)} scopes'}"
    )


async def _socket(client: "Client") -> Finding:
    await client.ping()
    if client.is_plain:
        return Finding("socket", "warning", "no websocket can be opened: everything goes over plain HTTP, more slowly")
    return Finding("socket", "ok", "open")


async def _latency(client: "Client") -> Finding:
    times = sorted([await _timed(client) for _ in range(PINGS)])
    median = times[PINGS // 2]
    grade: Grade = "ok" if median < SLOW else "warning"
    return Finding("latency", grade, f"median {median * 1000:.1f} ms, slowest {times[-1] * 1000:.1f} ms of {PINGS}")


async def _timed(client: "Client") -> float:
    start = time.perf_counter()
    await client.ping()
    return time.perf_counter() - start


async def _clock(client: "Client") -> Finding:
    before = datetime.now(UTC)
    stats = await client.stats()
    middle = before + (datetime.now(UTC) - before) / 2
    skew = (stats.server_time - middle).total_seconds()
    if abs(skew) > SKEW:
        return Finding("clock", "warning", f"the server's is {skew:+.1f} s from this machine's: set both by NTP")
    return Finding("clock", "ok", f"{skew * 1000:+.0f} ms from the server's")


CHECKS: dict[str, Check] = {
    "server": _reach,
    "token": _token,
    "socket": _socket,
    "latency": _latency,
    "clock": _clock,
}
