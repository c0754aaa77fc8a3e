"""How long the certificate of an https address is still valid."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from treadle.transport.environment import authorities
from treadle.wire.findings import Finding, Seen

SOON = timedelta(days=14)
"""How long before it expires a certificate should have been renewed; automatic renewal does it a month before."""


async def look(url: str) -> Seen:
    """Check until when the certificate of an https address is valid. Raises `OSError` if it can't be read."""
    certificate = await _certificate(url, authorities())
    ends_at = datetime.fromtimestamp(ssl.cert_time_to_seconds(str(certificate["notAfter"])), UTC)
    left = ends_at - datetime.now(UTC)
    told = f"it is valid until {ends_at:%Y-%m-%d %H:%M} UTC"
    if left < SOON:
        return [Finding("certificate", "warn", f"{told}: in {left / timedelta(days=1):.1f} days",
                        "renew it: the server uses the new one within ten seconds")]  # fmt: skip
    return [Finding("certificate", "ok", told)]


async def _certificate(url: str, context: ssl.SSLContext) -> dict[str, object]:
    """Return the server's certificate in the form of `ssl`."""
    parts = urlsplit(url)
    port = parts.port or 443
    _, writer = await asyncio.open_connection(parts.hostname, port, ssl=context, server_hostname=parts.hostname)
    writer.transport.abort()
    return dict(writer.get_extra_info("peercert") or {})
