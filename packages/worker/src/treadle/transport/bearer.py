"""Which token is sent to which server: a configured one to all of them, the data directory's only to this machine.

The token that a local server wrote is a superuser's. It is sent only if every address of the host name is a loopback
address, and over a connection to exactly those addresses: neither a name that resolves elsewhere a moment later nor a
proxy from the environment gets it. Each URL of a list is checked separately, and the token is read again at every
attempt, so one that a server writes later is found.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from treadle.clock import monotonic
from treadle.errors import ConnectionFailed, TreadleError, Unauthorized, problem_named
from treadle.transport.addresses import is_loopback, is_loopback_address, unreachable
from treadle.transport.environment import proxy_of
from treadle.values import brief, named

if TYPE_CHECKING:
    from treadle.settings import Settings

KEPT_SECONDS = 5.0
"""For how many seconds a refused token that is still in its file is sent again, before the refusal counts."""

RESOLVE_SECONDS = 10.0
"""Seconds that resolving a name may take."""

Read = Callable[[], str | None]
TokenSource = str | Callable[[], Awaitable[str]]
"""A token, or a function that returns the current one."""


class Way(NamedTuple):
    """One way to a server, and the token to send on it."""

    url: str
    token: str | None = None
    address: str | None = None
    """The IP address to connect to, without a proxy; None to leave that to the name and any proxy."""
    withheld: str | None = None
    """Why the data directory's token is not sent, or that there is none, and what to do; None if it is sent."""

    def __repr__(self) -> str:
        # Without the token, because error reporters may show the variables of each frame.
        return f"<Way {self.url}>"

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names for the URL; None for this machine's own addresses."""
        return None if self.address is not None else proxy_of(self.url)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that carry the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def explained(self, refused: Unauthorized) -> Unauthorized:
        """Return the error to raise for a refusal: the refusal itself, unless it is because a token was withheld."""
        return refused if self.withheld is None else Unauthorized(problem_named("unauthorized", self.withheld))


@dataclass(frozen=True, slots=True)
class Bearer:
    """The available tokens and the rule for them: `ways` returns for each attempt what to send to a URL.

    `everywhere` reads a token for every server; `fresh` returns such a token if it changes over time; `own` reads this
    machine's token, for when there is neither.
    """

    everywhere: Read = lambda: None
    fresh: Callable[[], Awaitable[str]] | None = None
    own: Read = lambda: None
    own_place: str | None = None
    """Where `own` is kept, for messages; None when there is no such place."""

    async def ways(self, url: str) -> list[Way]:
        """Return the ways to try now, in order.

        Raises `ConnectionFailed` when the name can't be resolved or `fresh` returns no token, and `InvalidSetting` when
        the token can't be read.
        """
        if self.fresh is not None:
            return [Way(url, await _asked(self.fresh))]
        chosen = self._without_looking(url)
        if isinstance(chosen, Way):
            return [chosen]
        split = urlsplit(url)
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(
                    split.hostname, split.port, type=socket.SOCK_STREAM
                )
        except (OSError, UnicodeError) as error:
            raise ConnectionFailed(unreachable(url, error)) from None
        return self._at(url, chosen, _addresses(found))

    def ways_now(self, url: str) -> list[Way]:
        """Return the same as `ways`, but block while the name is resolved, for threads; `fresh` is not used.

        Raises as `ways` does.
        """
        chosen = self._without_looking(url)
        if isinstance(chosen, Way):
            return [chosen]
        split = urlsplit(url)
        try:
            found = socket.getaddrinfo(split.hostname, split.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise ConnectionFailed(unreachable(url, error)) from None
        return self._at(url, chosen, _addresses(found))

    def _without_looking(self, url: str) -> Way | str:
        """Return the way if the address doesn't matter, else this machine's token."""
        token = self.everywhere()
        if token is not None:
            return Way(url, token)
        own = self.own()
        if own is not None:
            return own
        if self.own_place is None:
            return Way(url)
        return Way(
            url,
            withheld=f"{url} needs a token, and there is no {self.own_place}: set TREADLE_TOKEN to one of that server's"
            " tokens",
        )

    def _at(self, url: str, token: str, addresses: list[str]) -> list[Way]:
        others = [address for address in addresses if not is_loopback_address(address)]
        if not others:
            return [Way(url, token, address) for address in addresses]
        # Without the token: a server that requires none still answers.
        return [
            Way(
                url,
                withheld=f"{url} is not on this machine ({others[0]} is not a loopback address), so the token in"
                f" {self.own_place} is not sent there: set TREADLE_TOKEN to one of that server's tokens",
            )
        ]


class Refusals:
    """Decides when the refusal of a token is final.

    For a configured token it always is. The data directory's token is read again at each attempt: while it is missing,
    on this machine, a server may still write it; and if it was refused, that may have been another server, whose
    successor writes a new one.
    """

    def __init__(self, bearer: Bearer, urls: Sequence[str]) -> None:
        self._bearer = bearer
        self._is_here = any(is_loopback(urlsplit(url).hostname) for url in urls)
        self._refused: tuple[str, float] | None = None
        """The token that was refused, and since when."""

    def is_final(self) -> bool:
        """Record another refusal, of the present token; return whether it is useless to try again."""
        if self._bearer.fresh is not None or self._bearer.everywhere() is not None or not self._is_here:
            return True
        try:
            token = self._bearer.own()
        except TreadleError:
            # It may be being written; if not, the next attempt says what is wrong with it.
            return False
        if token is None:
            return self._bearer.own_place is None
        if self._refused is None or self._refused[0] != token:
            self._refused = (token, monotonic())
        return monotonic() - self._refused[1] >= KEPT_SECONDS

    @property
    def then(self) -> str:
        """What is done about a refusal that is not final, for the log."""
        return f"trying again with the token that {self._bearer.own_place} holds then"


def bearer_of(token: "TokenSource | Bearer | None", settings: "Settings | None" = None) -> Bearer:
    """Return the rule for a token given in code, or else for the settings' token.

    Without settings no token is looked for. Raises `InvalidSetting` for a token that can't be sent, and when the data
    directory's token can't be read.
    """
    if isinstance(token, Bearer):
        return token
    if callable(token):
        return Bearer(fresh=token)
    if token:
        given = _clean(token, "the token that was given")
        return Bearer(everywhere=lambda: given)
    if settings is None:
        return Bearer()
    if settings.token is not None:
        shown = _clean(settings.token.get_secret_value(), "TREADLE_TOKEN")
        return Bearer(everywhere=lambda: shown)
    # Read once here, so that a file that can't be read is reported at once.
    settings.read_local_token()
    return Bearer(own=settings.read_local_token, own_place=str(settings.token_path))


async def _asked(fresh: Callable[[], Awaitable[str]]) -> str:
    """Return the current token from the user's function, which may fail temporarily as a server may."""
    try:
        coming = fresh()
        token = await coming if isawaitable(coming) else None
    except TreadleError:
        raise
    except Exception as error:
        raise ConnectionFailed(f"there is no token: the function that provides it raised {named(error)}") from error
    if token is None:
        from treadle.settings import InvalidSetting

        raise InvalidSetting(f"the token's function must be async, as in async def token() -> str, not {brief(fresh)}")
    return _clean(token, "the token that was given")


def _clean(token: str, place: str) -> str:
    from treadle.settings import token_in

    return token_in(token, place)


def _addresses(found: Iterable[tuple[object, object, object, object, tuple[object, ...]]]) -> list[str]:
    """Return the addresses of a name in the resolver's order, without duplicates."""
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
