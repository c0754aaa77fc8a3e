"""What the environment says of the network: through which proxy a server is reached, and whose certificates count.

The socket and plain HTTP ask here, for the libraries beneath them read the same variables in different ways: websockets
goes through HTTPS_PROXY where httpx goes straight, and the other way round with ALL_PROXY; and where SSL_CERT_FILE says
nothing, one trusts the system's authorities and the other those that certifi brings.
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
"""What a proxy may speak; SOCKS with libraries that are installed for it."""


def proxy_of(url: str) -> str | None:
    """Return the URL of the proxy that a server is reached through, as HTTP_PROXY, HTTPS_PROXY or ALL_PROXY names it.

    None, where NO_PROXY names its host, and for this machine, which no proxy stands before. Raises `InvalidSetting` for
    one that can't be used.
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
    except ValueError as error:  # a port that is no number, or a bracket without its other
        raise unusable(url, error) from None
    if not is_one:
        raise unusable(url, f"it is no {' or '.join(_SCHEMES[:2])} URL")
    user, at, _ = parts.netloc.rpartition("@")
    # A user without a password has an empty one: websockets takes no other.
    return proxy.replace(f"{user}@", f"{user}:@", 1) if at and ":" not in user else proxy


def unusable(url: str, why: object) -> "InvalidSetting":
    """Return what to raise for a proxy of the environment that can't be used."""
    from treadle.settings import InvalidSetting

    return InvalidSetting(
        f"the environment names a proxy for {urlsplit(url).hostname} that can't be used ({why}): set HTTP_PROXY or"
        " HTTPS_PROXY to an http:// one, or name the host in NO_PROXY"
    )


def authorities() -> ssl.SSLContext:
    """Return whose certificates are trusted: of SSL_CERT_FILE or SSL_CERT_DIR, or else the public's and the system's.

    Raises `ConnectionFailed` while they can't be read: they may be there later, as a server may.
    """
    import httpx

    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    try:
        # Read here: older versions of httpx pass over a file that is not there.
        if file or folder:
            return ssl.create_default_context(cafile=file or None, capath=None if file else folder)
        context = httpx.create_ssl_context(trust_env=False)
        context.load_default_certs()
    except OSError as error:
        raise ConnectionFailed(
            f"the authorities that SSL_CERT_FILE or SSL_CERT_DIR names can't be read ({error}): name a PEM file"
        ) from None
    return context
