"""Servers' addresses: the order to try them in, which are on this machine, and errors for those that don't answer."""

import ipaddress
import random
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

from treadle.errors import ConnectionFailed, SocketRefused

_SPEAKS_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
"""OpenSSL's errors, in various versions, for a first answer that is not TLS."""

BAD_REQUEST = 400
"""The status with which many servers answer plain HTTP at a port for TLS."""

_NOT_READY = frozenset({502, 503, 504})
"""Statuses of a proxy that gets no answer from the server behind it."""


def shuffled(urls: Sequence[str]) -> list[str]:
    """Return the addresses of one cluster in random order, so that its servers share the connections."""
    return random.sample(urls, len(urls))


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host is this machine, which is never reached through a proxy."""
    return host == "localhost" or is_loopback_address(host or "")


def is_loopback_address(address: str) -> bool:
    """Return whether an IP address, with or without a scope, is a loopback address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def through(proxy: str | None) -> str:
    """Return the part of a message that names the proxy, without the password that its URL may contain."""
    return "" if proxy is None else f" through the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}"


def redirected(url: str, status: int, location: str) -> str:
    """Return the message for an address that redirects to another, where neither the request nor the token may go."""
    advice = "set TREADLE_URL to the server's own address, such as its https:// one"
    return f"{url} answers {status} and leads to {location[:300]}: {advice}"


def or_tls(url: str) -> str:
    """Return the advice for an http:// address that may be an https:// one; empty if it is one."""
    return f": if it speaks TLS, set TREADLE_URL to https{url.removeprefix('http')}" if url.startswith("http:") else ""


def broken_off(url: str, error: Exception, proxy: str | None, *, is_new: bool) -> str:
    """Return the message for a connection that broke; `is_new` if the address has never given an answer."""
    why = str(error) or type(error).__name__
    advice = or_tls(url) if is_new else ""
    return f"the connection to {url}{through(proxy)} broke before the answer came ({why}){advice}"


def strange(url: str, status: int) -> str:
    """Return the advice for an address where something other than a Treadle server answers with this status."""
    if status in _NOT_READY:
        return ": it is not ready, or its proxy can't reach it"
    return (or_tls(url) if status == BAD_REQUEST else "") or ": is a Treadle server there?"


def unreachable(url: str, error: Exception, proxy: str | None = None) -> str:
    """Return the message for a server that can't be reached, or whose certificate is not trusted.

    `proxy` is the one that the environment names for it.
    """
    cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if proxy is not None:
        cause += f",{through(proxy)}: NO_PROXY names hosts without one"
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
        if "mismatch" in cause:
            return f"the certificate of {url} is for another name ({cause}): set TREADLE_URL to a name that it covers"
        if "expired" in cause or "not yet valid" in cause:
            return f"the certificate of {url} is not valid now ({cause}): renew it, or set this machine's clock"
        return f"the certificate of {url} is not trusted here ({cause}): set SSL_CERT_FILE to its authority's PEM file"
    if _SPEAKS_NO_TLS.intersection(str(error).replace("]", " ").split()):
        plain = f"http{url.removeprefix('https')}"
        return f"{url} does not speak TLS ({cause}): set TREADLE_URL to {plain}, or TREADLE_TLS_CERT for the server"
    if "[SSL" in str(error) and "EOF" not in str(error):
        return f"{url} speaks TLS, but not with this client ({cause}): its log, or its proxy's, says what it wants"
    return f"no server answers at {url} ({cause}): start one with `treadle server`, or set TREADLE_URL"


def as_one(errors: Sequence[ConnectionFailed]) -> ConnectionFailed:
    """Return the errors of all the addresses as one: a `SocketRefused` if plain HTTP may reach one of them.

    That is silent if no server has answered at all.
    """
    told = "; ".join(dict.fromkeys(map(str, errors))) or "no server's address is given"
    if refusals := [error for error in errors if isinstance(error, SocketRefused)]:
        return SocketRefused(told, is_silent=all(error.is_silent for error in refusals))
    return ConnectionFailed(told)
