"""Checks of TLS: whether an address requires it, and how long its certificate is still valid."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from treadle.transport.environment import authorities
from treadle.wire.findings import Finding, Seen

SOON = timedelta(days=14)
"""How long before it expires a certificate should have been renewed; automatic renewal does it a month before."""

HANDSHAKE = 3.0
"""Seconds that an address has to show that it speaks TLS, if it has not answered anything else."""


async def look(url: str) -> Seen:
    """Check until when the certificate of an https address is valid. Raises `OSError` if it can't be read."""
    certificate = await _handshake(url, authorities())
    ends_at = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
    left = ends_at - datetime.now(UTC)
    told = f"it is valid until {ends_at:%Y-%m-%d %H:%M} UTC"
    if left < SOON:
        return [Finding("certificate", "warn", f"{told}: in {left / timedelta(days=1):.1f} days",
                        "renew it: the server uses the new one within ten seconds")]  # fmt: skip
    return [Finding("certificate", "ok", told)]


async def advice(url: str) -> str:
    """Return advice for an http address that gives no answer: empty, unless it speaks TLS."""
    if not url.startswith("http:"):
        return ""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname, anybody.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(HANDSHAKE):
            await _handshake(url, anybody)
    except (OSError, TimeoutError):
        return ""
    return f"it speaks TLS: set TREADLE_URL to https{url.removeprefix('http')}"


async def _handshake(url: str, context: ssl.SSLContext) -> dict[str, object]:
    """Return the server's certificate in the form of `ssl`; empty if the context does not verify it."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, server_hostname=parts.hostname)
    writer.transport.abort()
    return dict(writer.get_extra_info("peercert") or {})
