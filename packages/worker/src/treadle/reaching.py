"""Reaching a server, by socket or HTTP: in which order, with which pauses, which hosts have no proxy before them."""

import ipaddress
import random
import ssl
from collections.abc import Iterator, Sequence

_LONGEST_DELAY = 5.0


def shuffled(urls: Sequence[str]) -> list[str]:
    """Return the addresses of one cluster in an order of chance, so that its servers share the connections."""
    return random.sample(urls, len(urls))


def delays() -> Iterator[float]:
    """Seconds between attempts: doubling from 0.1 to 5, each drawn from its upper half, so that crowds spread out."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


def is_loopback(host: str | None) -> bool:
    """Return whether a URL's host is this machine, which no proxy stands before."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def unreachable(url: str, error: Exception) -> str:
    """Return what to say when no server is reached: nobody answers, or one whose certificate is not trusted."""
    cause = getattr(error, "strerror", None) or str(error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError) or "CERTIFICATE_VERIFY_FAILED" in str(error):
        return f"the certificate of {url} is not trusted here ({cause}): name its authority's PEM file in SSL_CERT_FILE"
    return f"no server answers at {url} ({cause}): start one with `treadle server`, or set TREADLE_URL"
