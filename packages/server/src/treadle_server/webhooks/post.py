"""One POST to a receiver: to an address that was checked, without redirects, in bounded time and memory."""

import asyncio
import logging
import ssl
from collections.abc import Sequence
from contextlib import suppress
from email.utils import parsedate_to_datetime

import httpx

from treadle.wire.amounts import in_seconds
from treadle_server import __version__
from treadle_server.domain.webhooks import LONGEST_DELAY, Answer, reason_of
from treadle_server.webhooks.addresses import AddressRefused, Network, resolve
from treadle_server.webhooks.connections import Connections
from treadle_server.webhooks.names import Names

log = logging.getLogger(__name__)

MOST_READ = 16_384
"""Most bytes of an answer that are read; the rest is ignored."""

MOST_TOLD = 200
"""Most characters of an error answer's body that are reported."""


class Post:
    """Sends requests."""

    def __init__(self, *, timeout: float, allowed: Sequence[Network] = ()) -> None:
        self._timeout = timeout
        self._allowed = allowed
        self._names = Names()
        self._client: httpx.AsyncClient | None = None

    async def _open(self) -> httpx.AsyncClient:
        if self._client is None:
            # Loading certificates would block the loop for some hundredths of a second.
            context = await asyncio.to_thread(httpx.create_ssl_context)
            self._client = self._client or self._made(context)
        return self._client

    def _made(self, context: ssl.SSLContext) -> httpx.AsyncClient:
        # A connection is never used twice: it goes to an address, which several names may share. No proxy, which would
        # look up names itself.
        return httpx.AsyncClient(
            transport=Connections(context),
            trust_env=False,
            follow_redirects=False,
            timeout=self._timeout,
            headers={"user-agent": f"Treadle/{__version__}", "accept": "*/*", "accept-encoding": "identity"},
        )

    async def close(self) -> None:
        """Close every connection."""
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def send(self, url: str, body: bytes, headers: dict[str, str]) -> Answer:
        """POST the body and return the outcome. Raises nothing but the caller's own cancellation."""
        try:
            client = await self._open()
            async with asyncio.timeout(self._timeout) as limit:
                return await self._send(client, httpx.URL(url), body, headers, limit)
        except TimeoutError:
            return Answer(None, f"no answer within {in_seconds(self._timeout)}")
        except AddressRefused as error:
            log.info("webhook not sent: %s (found: %s)", error, ", ".join(error.found)[:400] or "none")
            return Answer(None, str(error))
        except (httpx.InvalidURL, OSError, ValueError) as error:
            return Answer(None, reason_of(error))

    async def _send(
        self, client: httpx.AsyncClient, url: httpx.URL, body: bytes, headers: dict[str, str], limit: asyncio.Timeout
    ) -> Answer:
        addresses = await resolve(self._names, url.host, self._allowed)
        # Often only one of a host's addresses can be reached, and the others just don't answer.
        patience = httpx.Timeout(self._timeout, connect=self._timeout / len(addresses))
        try:
            for address in addresses[:-1]:
                with suppress(httpx.ConnectError, httpx.ConnectTimeout):
                    return await _send_to(client, address, url, body, headers, patience, limit)
            return await _send_to(client, addresses[-1], url, body, headers, patience, limit)
        except Exception as error:  # noqa: BLE001 - also errors of httpx's dependencies that it does not convert
            log.info("webhook not sent to %s at %s: %r", url.host, ", ".join(addresses)[:400], error)
            return Answer(None, _without(addresses, url.host, reason_of(error)))


def _without(addresses: Sequence[str], host: str, text: str) -> str:
    """Return the text with the addresses replaced by the host's name: a webhook's owner need not know the network."""
    for address in sorted(addresses, key=len, reverse=True):
        text = text.replace(address, host)
    return text


async def _send_to(
    client: httpx.AsyncClient,
    address: str,
    url: httpx.URL,
    body: bytes,
    headers: dict[str, str],
    patience: httpx.Timeout,
    limit: asyncio.Timeout,
) -> Answer:
    """Send a request for the URL's host to this address, with the host's name in Host and in TLS."""
    request = client.build_request(
        "POST",
        url.copy_with(host=address),
        content=body,
        headers={**headers, "host": url.netloc.decode("ascii"), "content-type": "application/json"},
        timeout=patience,
        extensions={"sni_hostname": url.raw_host.decode("ascii")},
    )
    response = await client.send(request, stream=True)
    try:
        deadline = limit.when()
        limit.reschedule(None)
        return _judge(response, await _beginning(response, deadline))
    finally:
        await response.aclose()


async def _beginning(response: httpx.Response, deadline: float | None) -> bytes:
    """Read the beginning of the answer's body, as far as it comes in time; the outcome is known from the status."""
    read = b""
    with suppress(TimeoutError, httpx.TransportError):
        async with asyncio.timeout_at(deadline):
            async for part in response.aiter_raw():
                read += part
                if len(read) >= MOST_READ:
                    break
    return read[:MOST_READ]


def _judge(response: httpx.Response, body: bytes) -> Answer:
    status = response.status_code
    if 200 <= status < 300:
        return Answer(status, None)
    if 300 <= status < 400:
        return Answer(status, f"answered {status}: redirects are not followed; set the webhook to the final URL")
    told = " ".join(body.decode("utf-8", "replace").replace("\x00", "").split())[:MOST_TOLD]
    # 410: by Standard Webhooks, the receiver wants no more deliveries.
    error = f"answered {status}: {told}" if told else f"answered {status}"
    return Answer(status, error, _retry_after(response), is_final=status == 410)


def _retry_after(response: httpx.Response) -> float | None:
    """Return the receiver's Retry-After in seconds, given as seconds or as a date."""
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdecimal():
        return float(text) if len(text) <= 9 else LONGEST_DELAY
    with suppress(ValueError, TypeError, OverflowError):
        # By the receiver's own clock. TypeError: one date has a zone and the other none. OverflowError: a year of many
        # digits.
        return (parsedate_to_datetime(text) - parsedate_to_datetime(response.headers.get("date", ""))).total_seconds()
    return None
