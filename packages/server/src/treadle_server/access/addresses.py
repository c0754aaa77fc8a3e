"""Addresses that requests come from, as they are counted, trusted and told."""

from ipaddress import IPv6Address, ip_address
from urllib.parse import urlsplit

from treadle_server.settings import LOOPBACK


def plain(address: str) -> str:
    """Return an address, an IPv4 one as such: at a server that listens at `::` they come as IPv6 ones."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, IPv6Address) else None
    return address if mapped is None else str(mapped)


def network_of(address: str) -> str:
    """Return what one customer has: of IPv6 the /64, of IPv4 the address alone."""
    given = plain(address)
    try:
        parsed = ip_address(given)
    except ValueError:
        return given
    return str(IPv6Address(int(parsed) >> 64 << 64)) if isinstance(parsed, IPv6Address) else given


def names_loopback(host: str) -> bool:
    """Return whether a Host header names a loopback address: a browser says the name that was rebound to one."""
    try:
        return urlsplit(f"//{host}").hostname in LOOPBACK
    except ValueError:
        return False
