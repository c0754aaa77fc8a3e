"""What is looked at through the server: whether it is reached, ready, fast, of this version, and what the token may."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from treadle.client.client import Client
from treadle.doctor import tls
from treadle.doctor.here import series
from treadle.errors import Forbidden, TreadleError, Unauthorized
from treadle.settings import InvalidSetting, Settings
from treadle.transport.environment import proxy_of
from treadle.version import __version__
from treadle.wire.amounts import first_of
from treadle.wire.findings import Check, Finding, Seen
from treadle.wire.pages import MOST_OF_PAGE

PINGS = 20
STARTING = 5.0
"""Seconds that the services of a server which has just begun are given for their first turns."""

SLOW = 0.25
"""Seconds of a round trip from which it is worth a remark."""

SKEW = 5.0
"""Seconds by which clocks may differ before it matters: leases are the store's clock's, logs are each machine's."""

SOON = timedelta(days=7)
"""How long before its end a token should be followed by another."""

MOST_SCOPES = 6
"""Scopes that are told by name."""


def checks(stack: AsyncExitStack) -> list[Check]:
    """Return the check that leads to those of each server; the clients that they use are closed with `stack`."""
    return [Check("server", partial(_servers, stack))]


def _servers(stack: AsyncExitStack) -> Seen:
    try:
        urls = Settings().urls
    except InvalidSetting as error:
        return [Finding("server", "fail", f"no server is named: {error}", "see docs/settings.md")]
    return [Check("server", partial(_reach, stack, url, is_one_of_several=len(urls) > 1)) for url in urls]


async def _reach(stack: AsyncExitStack, url: str, *, is_one_of_several: bool) -> Seen:
    try:
        client = await stack.enter_async_context(Client(url, patience=0))
        health = await client.http().request("GET", "/v1/healthz")
    except TreadleError as error:
        return [Finding("server", "fail", str(error), await tls.advice(url))]
    version = str(health.get("version", "unknown"))
    looks = {name: partial(look, client) for name, look in CHECKS.items()}
    if url.startswith("https:") and proxy_of(url) is None:
        looks["certificate"] = partial(tls.look, url)
    if is_one_of_several:
        looks = {name: partial(_told_of, url, look) for name, look in looks.items()}
    further = [Check(name, look) for name, look in looks.items()]
    if series(version) != series(__version__):
        return [Finding("server", "warn", f"{url} has version {version}, and this is {__version__}",
                        "bring them together, the server first"), *further]  # fmt: skip
    return [Finding("server", "ok", f"{url} has version {version}"), *further]


async def _told_of(url: str, look: Callable[[], Awaitable[Seen]]) -> Seen:
    """Return what is seen, with the server of which it is."""
    return [replace(one, detail=f"{url}: {one.detail}") if isinstance(one, Finding) else one for one in await look()]


async def _ready(client: Client) -> Seen:
    services = await _services(client)
    unwell = _unwell(services)
    advice = "look at the server's log; it goes on by itself when that is mended"
    if unwell:
        # A service may go on at its next turn; without a store that can be written nothing does.
        is_down = unwell.get("store", "starting") != "starting"
        return [Finding("ready", "fail" if is_down else "warn", f"not well: {_told_together(unwell)}", advice)]
    try:
        ready = await client.http().request("GET", "/v1/readyz")
        why = _told_together(_unwell(ready.get("services", {})))
    except TreadleError as error:
        why = str(error)
    if why:
        return [Finding("ready", "fail", f"/readyz says no: balancers send it nothing ({why})", advice)]
    return [Finding("ready", "ok", f"its store answers, and {len(services)} services turn")]


def _unwell(services: Mapping[str, str]) -> dict[str, str]:
    return {name: state for name, state in services.items() if state not in {"ok", "standby"}}


def _told_together(unwell: Mapping[str, str]) -> str:
    """Tell what fails by one cause with it once: without its database a server has ten such services."""
    alike = {state: [name for name, other in unwell.items() if other == state] for state in unwell.values()}
    return "; ".join(f"{', '.join(names)}: {state}" for state, names in alike.items())


async def _services(client: Client) -> dict[str, str]:
    """Return how each service does; of a server that has just begun, when all had their first turn, or had the time."""
    until = time.monotonic() + STARTING
    while True:
        services: dict[str, str] = (await client.http().request("GET", "/v1/healthz")).get("services", {})
        if "starting" not in services.values() or time.monotonic() >= until:
            return services
        await asyncio.sleep(0.1)


async def _token(client: Client) -> Seen:
    try:
        who = await client.whoami()
    except Unauthorized as error:
        return [Finding("token", "fail", str(error), "ask for a new one: treadle token create NAME")]
    except TreadleError as error:
        return [Finding("token", "fail", f"the server does not say what it may do: {error}")]
    told = f"{who.user}, {_rights(who.superuser, who.scopes)}"
    if who.expires_at is not None:
        left = who.expires_at - datetime.now(UTC)
        told += f", until {who.expires_at:%Y-%m-%d %H:%M} UTC"
        if left < SOON:
            hours = left.total_seconds() / 3600
            return [Finding("token", "warn", f"{told}: that is in {hours:.0f} hours",
                            "have the next one made and put in its place before")]  # fmt: skip
    if not who.may_write:
        told += ": it may read, and change nothing"
    return [Finding("token", "ok", told)]


def _rights(is_superuser: bool, scopes: Sequence[str]) -> str:  # noqa: FBT001 - as it is told
    if is_superuser:
        return "a superuser"
    if not scopes:
        return "with the rights of a plain user"
    return f"with {first_of(scopes, MOST_SCOPES)}"


async def _socket(client: Client) -> Seen:
    try:
        await client.ping()
    except TreadleError as error:
        return [Finding("socket", "fail", str(error))]
    if client.is_plain:
        return [Finding("socket", "warn", "no websocket can be opened: everything goes over plain HTTP, more slowly",
                        "let the proxy pass websockets to /v1/session")]  # fmt: skip
    times = sorted([await _timed(client) for _ in range(PINGS)])
    median = times[PINGS // 2]
    told = f"open; median {median * 1000:.1f} ms there and back, slowest {times[-1] * 1000:.1f} ms of {PINGS}"
    if median >= SLOW:
        return [Finding("socket", "warn", told, "look at the network, and whether the server's machine is busy")]
    return [Finding("socket", "ok", told)]


async def _timed(client: Client) -> float:
    start = time.perf_counter()
    await client.ping()
    return time.perf_counter() - start


async def _clocks(client: Client) -> Seen:
    """Hold this machine's clock against the store's, and against that of the server's machine."""
    skews: dict[str, float] = {}
    for whose, path, name in (("the store's", "/v1/stats", "server_time"), ("the server's", "/v1/healthz", "time")):
        sent = datetime.now(UTC)
        shown = (await client.http().request("GET", path)).get(name)
        # An older server does not tell its own.
        if shown is not None:
            middle = sent + (datetime.now(UTC) - sent) / 2
            skews[whose] = (datetime.fromisoformat(shown) - middle).total_seconds()
    wrong = {whose: skew for whose, skew in skews.items() if abs(skew) > SKEW}
    if wrong:
        told = " and ".join(f"{whose} clock is {skew:+.1f} s from this machine's" for whose, skew in wrong.items())
        return [Finding("clocks", "warn", f"{told}: leases go by the store's, logs by each machine's",
                        "have all of them set by NTP")]  # fmt: skip
    told = ", ".join(f"{whose} {skew:+.2f} s" for whose, skew in skews.items())
    return [Finding("clocks", "ok", f"from this machine's: {told}")]


async def _workers(client: Client) -> Seen:
    """Look which versions the workers have that are there."""
    try:
        page = await client.http().request("GET", f"/v1/workers?limit={MOST_OF_PAGE}")
    except Forbidden:
        return [Finding("workers", "ok", "which versions they have is not for this token to see (queue:read:*)")]
    found = Counter(str(one.get("version") or "unknown") for one in page["items"] if one.get("state") != "lost")
    told = ", ".join(f"{n} of {version}" for version, n in sorted(found.items())) or "none is there"
    others = [version for version in found if version != "unknown" and series(version) != series(__version__)]
    if others:
        return [Finding("workers", "warn", f"{told}, and this is {__version__}",
                        "bring them together: docs/growing.md says in which order")]  # fmt: skip
    return [Finding("workers", "ok", told)]


CHECKS = {"ready": _ready, "token": _token, "socket": _socket, "clocks": _clocks, "workers": _workers}
"""What is looked at where the server is reached."""
