"""Which token is shown to which server: one that was set to each of them, the data directory's to this machine alone.

The token that a local server wrote is a superuser's. It is shown only where every address of the host's name is a
loopback one, over a connection to just those addresses: neither a name that leads elsewhere a moment later nor a proxy
of the environment gets it. Each URL of a list is looked at by itself, and the token is read anew at every attempt, so
one that a server writes later is found.
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
"""For how long a refused token that its file keeps is shown again, before the refusal is believed."""

RESOLVE_SECONDS = 10.0
"""How long a name may take to be resolved."""

Read = Callable[[], str | None]
TokenSource = str | Callable[[], Awaitable[str]]
"""A token, or what gives the one to show at this moment."""


class Way(NamedTuple):
    """One way to a server, and what is shown there."""

    url: str
    token: str | None = None
    address: str | None = None
    """The IP address to connect to, without a proxy; None where it is for the name, and for proxies, to say."""
    withheld: str | None = None
    """Why the token of the data directory is not shown, where it isn't or there is none, and what to do."""

    def __repr__(self) -> str:
        # Without the token: who reports errors may show the variables of each frame.
        return f"<Way {self.url}>"

    @property
    def proxy(self) -> str | None:
        """The proxy that the environment names for it; none stands before this machine's own addresses."""
        return None if self.address is not None else proxy_of(self.url)

    @property
    def headers(self) -> dict[str, str]:
        """The headers that show the token."""
        return {"Authorization": f"Bearer {self.token}"} if self.token else {}

    def explained(self, refused: Unauthorized) -> Unauthorized:
        """Return what to raise for a refusal: it itself, unless it is for the lack of a token that was not shown."""
        return refused if self.withheld is None else Unauthorized(problem_named("unauthorized", self.withheld))


@dataclass(frozen=True, slots=True)
class Bearer:
    """The tokens to choose from, and the rule: `ways` says for each attempt what one URL gets.

    `everywhere` reads one that goes to every server; `fresh` gives such a one that changes; `own` reads this machine's,
    when there is neither.
    """

    everywhere: Read = lambda: None
    fresh: Callable[[], Awaitable[str]] | None = None
    own: Read = lambda: None
    own_place: str | None = None
    """Where `own` is kept, for the messages; None when there is no such place."""

    async def ways(self, url: str) -> list[Way]:
        """Return the ways to try now, in order.

        Raises `ConnectionFailed` when the name can't be resolved or no token be had, and `InvalidSetting` when the
        token can't be read.
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
        """Do as `ways`, in a thread: this waits for the name. Tokens that change are asked for by `ways` alone.

        Raises as `ways`.
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
        """Return the way where no address counts, or else this machine's token."""
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
            withheld=f"{url} wants a token, and there is no {self.own_place}: set TREADLE_TOKEN to one of that server's"
            " tokens",
        )

    def _at(self, url: str, token: str, addresses: list[str]) -> list[Way]:
        others = [address for address in addresses if not is_loopback_address(address)]
        if not others:
            return [Way(url, token, address) for address in addresses]
        # Elsewhere without it: a server that asks for none still answers.
        return [
            Way(
                url,
                withheld=f"{url} is not this machine's own ({others[0]} is no loopback address), so the token in"
                f" {self.own_place} is not sent there: set TREADLE_TOKEN to one of that server's tokens",
            )
        ]


class Refusals:
    """Says which refusal of a token is the last word.

    That of a token that was given is. The one of the data directory is read again at each try: as long as it is not
    there, on this machine, a server may still write it; and one that was refused may just be another server's, whose
    successor writes a new one.
    """

    def __init__(self, bearer: Bearer, urls: Sequence[str]) -> None:
        self._bearer = bearer
        self._is_here = any(is_loopback(urlsplit(url).hostname) for url in urls)
        self._refused: tuple[str, float] | None = None
        """The token that was refused, and since when."""

    def is_final(self) -> bool:
        """Take one more refusal, of the token that is there now; return whether trying again is in vain."""
        if self._bearer.fresh is not None or self._bearer.everywhere() is not None or not self._is_here:
            return True
        try:
            token = self._bearer.own()
        except TreadleError:
            # Being written, perhaps; who tries again is told what is wrong with it.
            return False
        if token is None:
            return self._bearer.own_place is None
        if self._refused is None or self._refused[0] != token:
            self._refused = (token, monotonic())
        return monotonic() - self._refused[1] >= KEPT_SECONDS

    @property
    def then(self) -> str:
        """What is done about a refusal that is not final."""
        return f"trying again with the token that {self._bearer.own_place} holds then"


def bearer_of(token: "TokenSource | Bearer | None", settings: "Settings | None" = None) -> Bearer:
    """Return the rule for a token as it is given in code; left out, the one of the settings.

    Without settings none is looked for. Raises `InvalidSetting` for one that can't be sent, and when the data
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
    # Once here, so that a file that can't be read is told of at once.
    settings.read_local_token()
    return Bearer(own=settings.read_local_token, own_place=str(settings.token_path))


async def _asked(fresh: Callable[[], Awaitable[str]]) -> str:
    """Return the token of this moment. What asks for it is the user's, and may meet an outage as a server does."""
    try:
        coming = fresh()
        token = await coming if isawaitable(coming) else None
    except TreadleError:
        raise
    except Exception as error:
        raise ConnectionFailed(
            f"there is no token to show: the function that gives it raised {named(error)}"
        ) from error
    if token is None:
        from treadle.settings import InvalidSetting

        raise InvalidSetting(f"what gives the token must be async, as async def token() -> str, not {brief(fresh)}")
    return _clean(token, "the token that was given")


def _clean(token: str, place: str) -> str:
    from treadle.settings import token_in

    return token_in(token, place)


def _addresses(found: Iterable[tuple[object, object, object, object, tuple[object, ...]]]) -> list[str]:
    """Return the addresses of a name in the resolver's order, each once."""
    return list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
