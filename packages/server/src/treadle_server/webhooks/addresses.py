"""Which addresses a webhook may reach: public ones, and those of networks that the settings name."""

import asyncio
import socket
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_NAT64 = IPv6Network("64:ff9b::/96")


class AddressRefused(Exception):
    """A host has no address that may be reached; the message says why."""


def networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Return the networks. Raises `ValueError` for what is none."""
    return tuple(ip_network(text) for text in texts)


def _meant(address: Address) -> list[Address]:
    """Return the addresses that are reached by this one: IPv6 has four ways to write that of an IPv4 host."""
    if isinstance(address, IPv4Address):
        return [address]
    if address.ipv4_mapped is not None:
        return [address.ipv4_mapped]
    found: list[Address] = [address, *(address.teredo or ())]
    if address.sixtofour is not None:
        found.append(address.sixtofour)
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return found


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Return whether a webhook may go to the address: loopback, link-local, private and the like need to be allowed."""
    return all(
        any(one.version == network.version and one in network for network in allowed)
        or (one.is_global and not one.is_multicast)
        for one in _meant(address)
    )


async def resolve(host: str, port: int, allowed: Sequence[Network]) -> list[str]:
    """Return the addresses of the host that may be reached. Raises `AddressRefused`.

    Who connects must connect to one of these, and not ask for the name again: a second answer may be another.
    """
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise AddressRefused(f"{host} has no address ({error})") from None
    addresses = list(dict.fromkeys(str(info[4][0]) for info in found))
    good = [text for text in addresses if may_reach(ip_address(text), allowed)]
    if not good:
        raise AddressRefused(
            f"{host} is at {', '.join(addresses)[:200]}, which is no public address;"
            " TREADLE_WEBHOOK_ALLOWED_NETWORKS admits others"
        )
    return good


def check_literal(host: str, allowed: Sequence[Network]) -> None:
    """Raise `AddressRefused` for a host that is written as an address which may not be reached."""
    try:
        address = ip_address(host)
    except ValueError:
        return
    if not may_reach(address, allowed):
        raise AddressRefused(
            f"{host} is no public address; a superuser of the server can admit it in TREADLE_WEBHOOK_ALLOWED_NETWORKS"
        )
