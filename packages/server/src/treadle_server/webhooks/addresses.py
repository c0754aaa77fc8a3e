"""Check which addresses a webhook may reach: public ones, and those in networks that the settings allow."""

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from treadle_server.webhooks.names import Names

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")

_UNICAST = IPv6Network("2000::/3")
"""The only part of IPv6 from which public addresses are allocated."""

_PROTOCOLS = IPv4Network("192.0.0.0/24")
"""Not public, though Python before 3.11.10 and 3.12.4 says that most of it is; one cloud has its metadata service
there."""

_COMPATIBLE = IPv6Network("::/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_ISATAP = 0x00005EFE
"""The bits before the IPv4 address in the lower half of an ISATAP address, except for one bit."""


class AddressRefused(Exception):
    """A host has no address that may be reached.

    The message is for the webhook's owner, and contains no address; `found` is for the server's log.
    """

    def __init__(self, message: str, found: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.found = tuple(found)


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse networks. Raises `ValueError` for an invalid one."""
    return tuple(ip_network(text) for text in texts)


def _meant(address: Address) -> list[Address]:
    """Return the addresses that this one may lead to: IPv6 has seven ways to write an IPv4 host's address."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    found: list[Address] = [address, *(address.teredo or ())]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    number = int(address)
    is_isatap = (number >> 32) & 0xFDFFFFFF == _ISATAP
    if is_isatap or any(address in network for network in (_NAT64, _COMPATIBLE, _TRANSLATED)):
        found.append(IPv4Address(number & 0xFFFFFFFF))
    return found


def _is_public(address: Address) -> bool:
    if not address.is_global or address.is_multicast:
        return False
    if isinstance(address, IPv4Address):
        return address not in _PROTOCOLS
    return address in _UNICAST or address in _NAT64


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Return whether a webhook may reach the address: one that is not public has to be in an allowed network."""
    return all(
        any(one.version == network.version and one in network for network in allowed) or _is_public(one)
        for one in _meant(address)
    )


async def resolve(names: Names, host: str, allowed: Sequence[Network]) -> list[str]:
    """Return the addresses of the host that may be reached. Raises `AddressRefused`.

    The caller must connect to one of these and not resolve the name again: a second answer may differ.
    """
    try:
        addresses = await names.addresses(host)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{host} can't be resolved ({error})") from None
    good = [text for text in addresses if may_reach(ip_address(text), allowed)]
    if not good:
        raise AddressRefused(
            f"{host} has no public address; a superuser of the server can allow others in"
            " TREADLE_WEBHOOK_ALLOWED_NETWORKS",
            addresses,
        )
    return good


def check_literal(host: str, allowed: Sequence[Network]) -> None:
    """Raise `AddressRefused` if the host is written as an address that may not be reached."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    if not may_reach(address, allowed):
        raise AddressRefused(
            f"{host} is not a public address; a superuser of the server can allow it in"
            " TREADLE_WEBHOOK_ALLOWED_NETWORKS"
        )
