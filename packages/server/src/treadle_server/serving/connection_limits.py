"""Limits connections, in all and from one address, and knows which of them have sent no valid token yet."""

import logging
from collections import Counter, defaultdict
from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from typing import Protocol

try:
    import resource
except ImportError:  # Windows has no such limits
    resource = None  # type: ignore[assignment]

log = logging.getLogger(__name__)

_TAKEN = "all %d connections%s are taken: a new one replaces one without a token, or is refused; raise %s to allow more"

MOST_RESERVED = 128
"""File descriptors reserved for the database, files and processes; of a small limit at most half."""

MOST_FILES = 65_536
"""How many file descriptors a server asks for."""


LEAST_FILES = 64
"""With fewer file descriptors a server can't start or soon fails: half are its own, half for connections."""


class TooFewFiles(OSError):
    """The system allows this process fewer files than a server needs."""


class Connection(Protocol):
    """What the limits need of a connection."""

    address: str

    def drop(self) -> None:
        """Close it at once, and leave the limits."""
        ...


class ConnectionLimits:
    """Admits connections. If all places are taken, the oldest stranger, a connection without a token, is closed."""

    def __init__(
        self,
        most: int,
        most_of_address: int,
        proxies: Sequence[str] = (),
        *,
        allowing: str = "TREADLE_MAX_CONNECTIONS",
    ) -> None:
        """`proxies` are networks whose addresses stand for many clients: they have no limit for an address.

        `allowing` is the setting that raises the limit, which the log names.
        """
        self._most = min(most, _descriptors())
        self._allowing = allowing if self._most == most else "the limit of open files (LimitNOFILE)"
        self._most_of_address = most_of_address or self._most
        self._proxies = [ip_network(proxy) for proxy in proxies]
        self._of_address: Counter[str] = Counter()
        self._count = 0
        # Oldest first.
        self._strangers: dict[Connection, None] = {}
        self._strangers_of: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def enter(self, connection: Connection) -> bool:
        """Count a new connection, as a stranger; return False if there is no place for it."""
        address = connection.address
        if self._of_address[address] >= self._most_of_address and not self._is_proxy(address):
            log.warning(_TAKEN, self._most_of_address, f" of {address}", "TREADLE_MAX_CONNECTIONS_PER_ADDRESS")
            if not self._drop_one(self._strangers_of.get(address, {})):
                return False
        if self._count >= self._most:
            log.warning(_TAKEN, self._most, "", self._allowing)
            if not self._drop_one(self._strangers):
                return False
        self._count += 1
        self._of_address[address] += 1
        self._strangers[connection] = self._strangers_of[address][connection] = None
        return True

    def trust(self, connection: Connection) -> None:
        """Note that the connection is no stranger any more."""
        self._strangers.pop(connection, None)
        self._strangers_of[connection.address].pop(connection, None)
        if not self._strangers_of[connection.address]:
            del self._strangers_of[connection.address]

    def leave(self, connection: Connection) -> None:
        """Forget a connection that entered."""
        self.trust(connection)
        self._count -= 1
        self._of_address[connection.address] -= 1
        if not self._of_address[connection.address]:
            del self._of_address[connection.address]

    def _is_proxy(self, address: str) -> bool:
        return any(ip_address(address) in proxy for proxy in self._proxies)

    def _drop_one(self, strangers: dict[Connection, None]) -> bool:
        for oldest in strangers:
            oldest.drop()
            return True
        return False


def _descriptors() -> int:
    """Return how many connections the limit of open files allows."""
    if resource is None:
        return 1_000_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(soft - min(MOST_RESERVED, soft // 2), 1)


def raise_limit() -> None:
    """Raise this process's limit of open files as far as the system allows, up to `MOST_FILES`.

    Raises `TooFewFiles` if that is less than a server needs.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if hard != resource.RLIM_INFINITY and hard < LEAST_FILES:
        raise TooFewFiles(
            f"this process may open {hard} files, but a server needs at least {LEAST_FILES}: raise LimitNOFILE of the"
            " unit, or `ulimit -Hn`"
        )
