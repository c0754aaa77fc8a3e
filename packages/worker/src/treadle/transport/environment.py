"""Network settings from the environment: the proxy through which a server is reached, and the trusted certificates.

The socket and plain HTTP both use this module, because the libraries beneath them read the same variables differently:
websockets uses HTTPS_PROXY where httpx connects directly, and the other way round with ALL_PROXY; and without
SSL_CERT_FILE, one trusts the system's authorities and the other those of certifi.
"""

import os
import ssl
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from treadle.errors import ConnectionFailed
from treadle.transport.addresses import is_loopback

if TYPE_CHECKING:
    from treadle.settings import InvalidSetting

_SCHEMES = ("http", "https", "socks5", "socks5h")
"""The schemes that a proxy may have; SOCKS needs further libraries."""


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy for a server, according to HTTP_PROXY, HTTPS_PROXY or ALL_PROXY.

    None if NO_PROXY names its host, and for this machine, which is never reached through a proxy. Raises
    `InvalidSetting` for an unusable proxy.
    """
    from urllib.request import getproxies, proxy_bypass

    split = urlsplit(url)
    place = split.netloc.rpartition("@")[2]
    if is_loopback(split.hostname) or proxy_bypass(place):
        return None
    proxies = getproxies()
    named = proxies.get(split.scheme) or proxies.get("all")
    if not named:
        return None
    proxy = named if "://" in named else f"http://{named}"
    try:
        parts = urlsplit(proxy)
        is_one = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError as error:  # a port that is not a number, or an unbalanced bracket
        raise unusable(url, error) from None
    if not is_one:
        raise unusable(url, f"it is not an {' or '.join(_SCHEMES[:2])} URL")
    user, at, _ = parts.netloc.rpartition("@")
    # A user without a password gets an empty one, because websockets requires it.
    return proxy.replace(f"{user}@", f"{user}:@", 1) if at and ":" not in user else proxy


def unusable(url: str, why: object) -> "InvalidSetting":
    """Return the error for a proxy in the environment that can't be used."""
    from treadle.settings import InvalidSetting

    return InvalidSetting(
        f"the environment names a proxy for {urlsplit(url).hostname} that can't be used ({why}): set HTTP_PROXY or"
        " HTTPS_PROXY to an http:// one, or name the host in NO_PROXY"
    )


def authorities() -> ssl.SSLContext:
    """Return the trusted authorities: of SSL_CERT_FILE or SSL_CERT_DIR, or else certifi's and the system's.

    Raises `ConnectionFailed` while they can't be read: like a server, they may be there later.
    """
    import httpx

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        # Read here, because older versions of httpx ignore a file that does not exist.
        if file or folder:
            return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
    except OSError as error:
        place = f"SSL_CERT_FILE or SSL_CERT_DIR ({file or folder or 'neither is set'})"
        raise ConnectionFailed(f"the authorities in {place} can't be read ({error}): name a PEM file") from None
    return context
