"""Client addresses, in the forms in which they are counted, trusted and logged."""

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from treadle_server.settings import LOOPBACK


def plain(address: str) -> str:
    """Return an address, with IPv4-mapped IPv6 as IPv4: a server that listens on `::` sees IPv4 clients that way."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return address if mapped is None else str(mapped)


def network_of(address: str) -> str:
    """Return the network that one customer has: the /64 of an IPv6 address, or the IPv4 address itself."""
    given = plain(address)
    try:
        parsed = ip_address(given)
    except ValueError:
        return given
    return str(IPv6Address(int(parsed) >> 64 << 64)) if isinstance(parsed, IPv6Address) else given


def names_loopback(host: str) -> bool:
    """Return whether a Host header names a loopback address: after DNS rebinding a browser sends another name."""
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False
