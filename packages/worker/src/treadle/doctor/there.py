"""Checks through the server: whether it is reachable, ready, fast, of this version, and what the token may do."""

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
from treadle.wire.amounts import first_of, in_seconds
from treadle.wire.findings import Check, Finding, Seen
from treadle.wire.pages import MOST_OF_PAGE

PINGS = 20
STARTING = 5.0
"""Seconds that the services of a server that has just started get for their first turns."""

SLOW = 0.25
"""Seconds of a round trip above which it is reported as slow."""

SKEW = 5.0
"""Seconds by which clocks may differ before it matters: leases use the store's clock, logs each machine's."""

SOON = timedelta(days=7)
"""How long before it expires a token should be replaced."""

MOST_OF_LIMIT = 0.8
"""The share of a check's time that a server has for its first answer."""

MOST_SCOPES = 6
"""The most scopes that are named."""


def checks(stack: AsyncExitStack, limit: float) -> list[Check]:
    """Return the check that leads to those of each server; the clients that they use are closed with `stack`.

    A server that has not answered when most of the `limit` of a check, in seconds, is over does not answer.
    """
    return [Check("server", partial(_servers, stack, limit * MOST_OF_LIMIT))]


def _servers(stack: AsyncExitStack, patience: float) -> Seen:
    try:
        urls = Settings().urls
    except InvalidSetting as error:
        return [Finding("server", "fail", f"no server is configured: {error}", "see docs/settings.md")]
    return [Check("server", partial(_reach, stack, url, patience, is_one_of_several=len(urls) > 1)) for url in urls]


async def _reach(stack: AsyncExitStack, url: str, patience: float, *, is_one_of_several: bool) -> Seen:
    try:
        async with asyncio.timeout(patience):
            client = await stack.enter_async_context(Client(url, patience=0))
            health = await client.http().request("GET", "/v1/healthz")
    except TimeoutError:
        return [Finding("server", "fail", f"{url} does not answer within {in_seconds(patience)}",
                        "if it is running, look for what stops it, or a network or proxy in between")]  # fmt: skip
    except TreadleError as error:
        return [Finding("server", "fail", str(error))]
    version = str(health.get("version", "unknown"))
    looks = {name: partial(look, client) for name, look in CHECKS.items()}
    if url.startswith("https:") and proxy_of(url) is None:
        looks["certificate"] = partial(tls.look, url)
    if is_one_of_several:
        looks = {name: partial(_told_of, url, look) for name, look in looks.items()}
    further = [Check(name, look) for name, look in looks.items()]
    if series(version) != series(__version__):
        return [Finding("server", "warn", f"{url} has version {version}, and this is {__version__}",
                        "upgrade them to the same version, the server first"), *further]  # fmt: skip
    return [Finding("server", "ok", f"{url} has version {version}"), *further]


async def _told_of(url: str, look: Callable[[], Awaitable[Seen]]) -> Seen:
    """Return what is seen, with the URL of its server."""
    return [replace(one, detail=f"{url}: {one.detail}") if isinstance(one, Finding) else one for one in await look()]


async def _ready(client: Client) -> Seen:
    services = await _services(client)
    unwell = _unwell(services)
    advice = "look at the server's log; it recovers by itself once that is fixed"
    if unwell:
        # A service may recover at its next turn; without a writable store nothing works.
        is_down = unwell.get("store", "starting") != "starting"
        return [Finding("ready", "fail" if is_down else "warn", f"not well: {_told_together(unwell)}", advice)]
    try:
        ready = await client.http().request("GET", "/v1/readyz")
        why = _told_together(_unwell(ready.get("services", {})))
    except TreadleError as error:
        why = str(error)
    if why:
        return [Finding("ready", "fail", f"not ready by /readyz: load balancers send it no requests ({why})", advice)]
    return [Finding("ready", "ok", f"its store answers, and {len(services)} services are running")]


def _unwell(services: Mapping[str, str]) -> dict[str, str]:
    return {name: state for name, state in services.items() if state not in {"ok", "standby"}}


def _told_together(unwell: Mapping[str, str]) -> str:
    """Group services that fail for the same reason: without its database a server has ten of them."""
    alike = {state: [name for name, other in unwell.items() if other == state] for state in unwell.values()}
    return "; ".join(f"{', '.join(names)}: {state}" for state, names in alike.items())


async def _services(client: Client) -> dict[str, str]:
    """Return the state of each service, for a server that has just started after their first turns or `STARTING` s."""
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
        return [Finding("token", "fail", str(error), "create a new one: treadle token create NAME")]
    except TreadleError as error:
        return [Finding("token", "fail", f"the server did not say what it may do: {error}")]
    told = f"{who.user}, {_rights(who.superuser, who.scopes)}"
    if who.expires_at is not None:
        left = who.expires_at - datetime.now(UTC)
        told += f", until {who.expires_at:%Y-%m-%d %H:%M} UTC"
        if left < SOON:
            hours = left.total_seconds() / 3600
            return [Finding("token", "warn", f"{told}: that is in {hours:.0f} hours",
                            "create the next one and replace this one before then")]  # fmt: skip
    if not who.may_write:
        told += ": it may read, but change nothing"
    return [Finding("token", "ok", told)]


def _rights(is_superuser: bool, scopes: Sequence[str]) -> str:  # noqa: FBT001 - a flag of the answer
    if is_superuser:
        return "a superuser"
    if not scopes:
        return "with the rights of an ordinary user"
    return f"with {first_of(scopes, MOST_SCOPES)}"


async def _socket(client: Client) -> Seen:
    try:
        await client.ping()
    except TreadleError as error:
        return [Finding("socket", "fail", str(error))]
    if client.is_plain:
        return [Finding("socket", "warn", "no websocket can be opened: everything uses plain HTTP, which is slower",
                        "let the proxy pass on websockets to /v1/session")]  # fmt: skip
    times = sorted([await _timed(client) for _ in range(PINGS)])
    median = times[PINGS // 2]
    told = f"open; round trip median {median * 1000:.1f} ms, slowest {times[-1] * 1000:.1f} ms of {PINGS}"
    if median >= SLOW:
        return [Finding("socket", "warn", told, "check the network, and whether the server's machine is busy")]
    return [Finding("socket", "ok", told)]


async def _timed(client: Client) -> float:
    start = time.perf_counter()
    await client.ping()
    return time.perf_counter() - start


async def _clocks(client: Client) -> Seen:
    """Compare this machine's clock with the store's, and with that of the server's machine."""
    skews: dict[str, float] = {}
    for whose, path, name in (("the store's", "/v1/stats", "server_time"), ("the server's", "/v1/healthz", "time")):
        sent = datetime.now(UTC)
        shown = (await client.http().request("GET", path)).get(name)
        # An older server does not report its own.
        if shown is not None:
            middle = sent + (datetime.now(UTC) - sent) / 2
            skews[whose] = (datetime.fromisoformat(shown) - middle).total_seconds()
    wrong = {whose: skew for whose, skew in skews.items() if abs(skew) > SKEW}
    if wrong:
        told = " and ".join(f"{whose} clock is {skew:+.1f} s from this machine's" for whose, skew in wrong.items())
        return [Finding("clocks", "warn", f"{told}: leases go by the store's, logs by each machine's",
                        "have NTP set all of them")]  # fmt: skip
    told = ", ".join(f"{whose} {skew:+.2f} s" for whose, skew in skews.items())
    return [Finding("clocks", "ok", f"from this machine's: {told}")]


async def _workers(client: Client) -> Seen:
    """Check which versions the live workers have."""
    try:
        page = await client.http().request("GET", f"/v1/workers?limit={MOST_OF_PAGE}")
    except Forbidden:
        return [Finding("workers", "ok", "this token may not see their versions (needs queue:read:*)")]
    found = Counter(str(one.get("version") or "unknown") for one in page["items"] if one.get("state") != "lost")
    told = ", ".join(f"{n} of {version}" for version, n in sorted(found.items())) or "there are none"
    others = [version for version in found if version != "unknown" and series(version) != series(__version__)]
    if others:
        return [Finding("workers", "warn", f"{told}, and this is {__version__}",
                        "upgrade them to the same version: docs/growing.md says in which order")]  # fmt: skip
    return [Finding("workers", "ok", told)]


CHECKS = {"ready": _ready, "token": _token, "socket": _socket, "clocks": _clocks, "workers": _workers}
"""The checks that are made if the server is reachable."""
