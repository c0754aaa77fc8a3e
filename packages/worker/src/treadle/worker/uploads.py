"""Uploads of artifacts: announced to the server, put where it says, and finished; retried if the connection fails."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.errors import (
    NOT_NOW,
    ConnectionFailed,
    ConnectionLost,
    InvalidArguments,
    ProtocolMismatch,
    error_for,
    problem_named,
)
from treadle.loops import in_thread
from treadle.transport.answers import read, reading
from treadle.transport.retries import QuietLog, delays
from treadle.wire.artifacts import ArtifactItem, ArtifactUpload
from treadle.wire.problems import Problem

if TYPE_CHECKING:
    import httpx

    from treadle.tasks.content import Content
    from treadle.transport.bearer import Bearer
    from treadle.transport.http import HttpChannel

log = logging.getLogger("treadle.worker")

CHUNK = 1024 * 1024
"""Bytes that are read and sent at once."""

PATIENCE = 60.0
"""Seconds during which a failing upload is tried again without getting further than before."""

SILENCE = 60.0
"""Seconds for which a connection may make no progress."""

STORING = 600.0
"""Seconds that a store may take after the last byte, as it reads a large object once more."""

SETTING = "TREADLE_PUBLIC_URL"
"""The server's setting for where it is itself."""


class _Sent:
    """How far one attempt at an upload has got."""

    def __init__(self, check: Callable[[], None]) -> None:
        self._check = check
        self.pieces = 0

    def another(self) -> None:
        """Count a piece that is to be sent, or the final request; raises what ends the upload."""
        self._check()
        self.pieces += 1


class Uploader:
    """Uploads for the runs of one worker; connects on the first upload.

    `mounts` are transports to use instead of the network, as in httpx.
    """

    def __init__(
        self,
        urls: tuple[str, ...],
        token: "str | Bearer | None",
        *,
        patience: float = PATIENCE,
        mounts: "Mapping[str, httpx.AsyncBaseTransport] | None" = None,
    ) -> None:
        self._urls = urls
        self._mounts = mounts
        self._token = token
        self._patience = patience
        self._channel: HttpChannel | None = None
        self._plain: httpx.AsyncClient | None = None

    async def close(self) -> None:
        """Close every connection."""
        if self._channel is not None and self._plain is not None:
            await self._channel.close()
            await self._plain.aclose()

    async def upload(
        self, key: tuple[str, int], content: "Content", check: Callable[[], None] = lambda: None
    ) -> ArtifactItem:
        """Upload for the run `key` (task id, run id), and return the stored artifact.

        `check` is called between pieces and raises to end the upload; nothing of an ended upload is visible. Raises
        what `check` does, the server's `ProblemError`, `Forbidden` if a bucket refuses it, `InvalidArguments` for a
        file that becomes shorter, and `ConnectionFailed` when for a while no attempt got further than those before.
        """
        size, sha256 = await asyncio.to_thread(_measure, content.data)
        body = {
            "name": content.name,
            "content_type": content.content_type,
            "content_length": size,
            "sha256": sha256,
        }
        loop = asyncio.get_running_loop()
        waits = QuietLog(log)
        # A large file may be on its way for hours before it fails, and again before it fails farther on.
        failing_since, farthest = 0.0, -1
        for delay in delays():
            check()
            sent = _Sent(check)
            try:
                return await self._try(key, content, body, sent.another)
            except (ConnectionFailed, *NOT_NOW) as error:
                if sent.pieces > farthest:
                    failing_since, farthest = loop.time(), sent.pieces
                left = failing_since + self._patience - loop.time()
                if left <= 0:
                    raise
                waits.say(f"the upload of {content.name!r} for task {key[0]} has failed: {error}", "trying again")
            await asyncio.sleep(min(delay, left))
        raise AssertionError("the delays never end")

    async def _try(
        self, key: tuple[str, int], content: "Content", body: dict[str, Any], check: Callable[[], None]
    ) -> ArtifactItem:
        _, plain = self._open()
        announced = read(ArtifactUpload, await self._announce(key, body))
        if announced.stored is not None:
            return announced.stored
        if announced.put_url is None:
            raise ConnectionLost("the server's answer contains neither an upload URL nor the stored artifact")
        headers = {**announced.headers, "Content-Length": str(body["content_length"])}
        pieces = _pieces(content.data, body["content_length"], check)
        to_bucket = announced.finish_url is not None
        answer = await _send(plain, "PUT", announced.put_url, headers, pieces, to_bucket=to_bucket)
        if announced.finish_url is not None:
            check()
            answer = await _send(plain, "POST", announced.finish_url, {}, None)
        with reading():
            return ArtifactItem.model_validate_json(answer.content)

    async def _announce(self, key: tuple[str, int], body: dict[str, Any]) -> Any:
        channel, _ = self._open()
        return await channel.request("POST", f"/v1/tasks/{key[0]}/runs/{key[1]}/artifacts", body, resend=True)

    def _open(self) -> "tuple[HttpChannel, httpx.AsyncClient]":
        if self._channel is None or self._plain is None:
            import httpx

            from treadle.transport.http import HttpChannel
            from treadle.transport.http_client import network_client

            # Without the token: the upload URL is signed, and may lead to somebody else's server.
            timeout = httpx.Timeout(SILENCE, read=STORING)
            self._plain = network_client(timeout=timeout, mounts=self._mounts)
            self._channel = HttpChannel(self._urls, self._token)
        return self._channel, self._plain


async def _send(
    plain: "httpx.AsyncClient",
    method: str,
    url: str,
    headers: dict[str, str],
    pieces: AsyncIterator[bytes] | None,
    *,
    to_bucket: bool = False,
) -> "httpx.Response":
    import httpx

    from treadle.transport import buckets

    try:
        answer = await plain.request(method, url, headers=headers, content=pieces)
    except httpx.RequestError as error:
        setting = buckets.SETTING if to_bucket else SETTING
        raise buckets.broken("the upload to", httpx.URL(url), error, setting) from None
    if answer.is_success:
        return answer
    if to_bucket:
        raise buckets.refusal(answer, "upload")
    raise _refusal(answer)


def _refusal(answer: "httpx.Response") -> Exception:
    try:
        problem = Problem.model_validate_json(answer.content)
    except ValueError:
        problem = None
    where = f"{answer.request.method} {answer.url.scheme}://{answer.url.netloc.decode()}"
    # A problem that is not ours comes from a proxy, or from a server with no room for another connection.
    if not (problem and problem.is_ours) and (answer.status_code >= 500 or answer.status_code in {408, 429}):
        return ConnectionFailed(f"{where} answered {answer.status_code}")
    if problem is not None:
        return error_for(problem)
    if answer.status_code == 413:
        return error_for(
            problem_named("payload-too-large", f"{where} answered 413: a proxy allows less than the server does")
        )
    advice = f"the server says that files are there: check its {SETTING}"
    return ProtocolMismatch(f"{where} answered {answer.status_code}; {advice}: {answer.text[:300]}")


def _measure(data: bytes | Path) -> tuple[int, str]:
    """Return the size and the digest."""
    if isinstance(data, bytes):
        return len(data), hashlib.sha256(data).hexdigest()
    with data.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return file.tell(), digest.hexdigest()


async def _pieces(data: bytes | Path, size: int, check: Callable[[], None]) -> AsyncIterator[bytes]:
    """Yield the first `size` bytes; a file that is still being written to, such as a log, is sent as it was measured.

    Raises `InvalidArguments` for a file that has become shorter.
    """
    if isinstance(data, bytes):
        for start in range(0, len(data), CHUNK):
            check()
            yield data[start : start + CHUNK]
        return
    with ExitStack() as opened:
        file = await in_thread(lambda: opened.enter_context(data.open("rb")))
        while size > 0:
            piece = await in_thread(file.read, min(size, CHUNK))
            if not piece:
                raise InvalidArguments(f"{data} shrank while it was uploaded: upload a copy of it")
            check()
            size -= len(piece)
            yield piece
