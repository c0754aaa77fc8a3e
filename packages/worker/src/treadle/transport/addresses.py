"""Servers' addresses: in which order to try them, which of them are this machine, what to say where none answers."""

import ipaddress
import random
import ssl
from collections.abc import Sequence
from urllib.parse import urlsplit

_SPEAKS_NO_TLS = frozenset({"WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"})
"""What OpenSSL calls a first answer that is none of TLS, in one version or another."""


def shuffled(urls: Sequence[str]) -> list[str]:
    """Return the addresses of one cluster in an order of chance, so that its servers share the connections."""
    return random.sample(urls, len(urls))


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host is this machine, which no proxy stands before."""
    return host == "localhost" or is_loopback_address(host or "")


def is_loopback_address(address: str) -> bool:
    """Return whether an IP address, with or without a scope, is a loopback one."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def through(proxy: str | None) -> str:
    """Return what to say of the proxy by which a server is asked, without the password that may stand in its URL."""
    return "" if proxy is None else f" through the proxy {urlsplit(proxy).netloc.rpartition('@')[2]}"


def led_away(url: str, status: int, location: str) -> str:
    """Return what to say of an address that answers with another one: what is asked and shown goes to no other."""
    advice = "set TREADLE_URL to the server's own address, such as its https:// one"
    return f"{url} answers {status} and leads to {location[:300]}: {advice}"


def unreachable(url: str, error: Exception, proxy: str | None = None) -> str:
    """Return what to say when no server is reached: nobody answers, or one whose certificate is not trusted.

    `proxy` is the one that the environment names for it.
    """
    cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if proxy is not None:
        cause += f",{through(proxy)}: NO_PROXY names hosts without one"
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
        if "mismatch" in cause:
            return f"the certificate of {url} is another name's ({cause}): set TREADLE_URL to a name that stands in it"
        if "expired" in cause or "not yet valid" in cause:
            return f"the certificate of {url} does not count now ({cause}): renew it, or set this machine's clock"
        return f"the certificate of {url} is not trusted here ({cause}): name its authority's PEM file in SSL_CERT_FILE"
    if _SPEAKS_NO_TLS.intersection(str(error).replace("]", " ").split()):
        plain = f"http{url.removeprefix('https')}"
        return f"{url} speaks no TLS ({cause}): set TREADLE_URL to {plain}, or TREADLE_TLS_CERT for the server"
    return f"no server answers at {url} ({cause}): start one with `treadle server`, or set TREADLE_URL"
