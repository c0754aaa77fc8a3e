"""How many connections the server has, in all and of one address, and which of them have shown no token yet."""

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

_TAKEN = "all %d connections%s are taken: who comes has the place of one without a token, or none; %s allows more"

MOST_RESERVED = 128
"""File descriptors that are kept for the database, files and processes; half of them where there are few."""

MOST_FILES = 65_536
"""File descriptors that a server wants."""


LEAST_FILES = 64
"""File descriptors below which a server can't start, or falls over soon: half are its own, half for connections."""


class TooFewFiles(OSError):
    """The system allows this process fewer files than a server needs."""


class Connection(Protocol):
    """What the limits know of a connection."""

    address: str

    def drop(self) -> None:
        """Close it at once; the limits have forgotten it."""
        ...


class ConnectionLimits:
    """Lets connections in. Where there is no place, the longest known stranger has to go: one without a token."""

    def __init__(
        self,
        most: int,
        most_of_address: int,
        proxies: Sequence[str] = (),
        *,
        allowing: str = "TREADLE_MAX_CONNECTIONS",
    ) -> None:
        """`proxies` are networks whose addresses speak for many others: they have no bound of their own.

        `allowing` is the setting that the log names, by which there may be more.
        """
        self._most = min(most, _descriptors())
        self._allowing = allowing if self._most == most else "the limit of open files (LimitNOFILE)"
        self._most_of_address = most_of_address or self._most
        self._proxies = [ip_network(proxy) for proxy in proxies]
        self._of_address: Counter[str] = Counter()
        self._count = 0
        # In the order in which they came.
        self._strangers: dict[Connection, None] = {}
        self._strangers_of: defaultdict[str, dict[Connection, None]] = defaultdict(dict)

    def enter(self, connection: Connection) -> bool:
        """Count a connection, which is a stranger's; return False when there is no place for it."""
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
        """Take note that a token was accepted."""
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
    """Return how many connections the limit of open files leaves room for."""
    if resource is None:
        return 1_000_000
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return 1_000_000
    return max(soft - min(MOST_RESERVED, soft // 2), 1)


def raise_limit() -> None:
    """Let this process open as many files as the system allows it, as servers do.

    Raises `TooFewFiles` where that is less than a server needs.
    """
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, MOST_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    if hard != resource.RLIM_INFINITY and hard < LEAST_FILES:
        raise TooFewFiles(
            f"this process may open {hard} files, and a server needs {LEAST_FILES} at least: raise LimitNOFILE of the"
            " unit, or `ulimit -Hn`"
        )
