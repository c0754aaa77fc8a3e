"""Reaching a server, by socket or HTTP: in which order, with which pauses, which hosts have no proxy before them."""

import ipaddress
import logging
import random
import ssl
from collections.abc import Iterator, Sequence

from treadle.clock import monotonic

_LONGEST_DELAY = 5.0

REMINDER = 60.0
"""Seconds after which what is still waited for is said once more."""

_MOST_SENTENCES = 100
"""Sentences of one wait that are remembered at most."""


def shuffled(urls: Sequence[str]) -> list[str]:
    """Return the addresses of one cluster in an order of chance, so that its servers share the connections."""
    return random.sample(urls, len(urls))


def delays() -> Iterator[float]:
    """Seconds between attempts: doubling from 0.1 to 5, each drawn from its upper half, so that crowds spread out."""
    delay = 0.1
    while True:
        yield delay * random.uniform(0.5, 1.0)
        delay = min(delay * 2, _LONGEST_DELAY)


class Folded:
    """Says what is waited for: each sentence at once, and again after a minute, not at each try."""

    def __init__(self, log: logging.Logger, *, level: int = logging.WARNING) -> None:
        self._log = log
        self._level = level
        self._said: dict[str, float] = {}

    def say(self, sentence: object, then: str) -> None:
        """Log the sentence, and what is done about it, unless it was logged within the last minute."""
        text, now = str(sentence), monotonic()
        last = self._said.get(text)
        if last is not None and now - last < REMINDER:
            return
        if len(self._said) >= _MOST_SENTENCES:
            self._said.clear()
        self._said[text] = now
        self._log.log(self._level, "%s; %s", text, then if last is None else f"still {then}")

    def over(self) -> None:
        """Forget the sentences: what was waited for is there."""
        self._said.clear()


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
