"""Downloads of artifacts: streamed to a file that appears when it is whole, and compared with its digest."""

import asyncio
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treadle.errors import ProtocolMismatch

if TYPE_CHECKING:
    from treadle.transport.http import HttpChannel

CHUNK = 1024 * 1024
"""Bytes that are written at once."""


async def download(channel: "HttpChannel", path: str, to: Path, *, params: dict[str, Any] | None = None) -> Path:
    """Save what the server gives at `path` as the file `to`, which is replaced, and return that.

    Raises `OSError` when the file can't be written, `ProtocolMismatch` when the bytes are not those that were stored,
    and as `HttpChannel.stream`.
    """
    descriptor, name = await asyncio.to_thread(tempfile.mkstemp, prefix=f".{to.name[:50]}.", dir=to.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            async with channel.stream(path, params=params) as (answer, etag):
                found = await _write(answer.aiter_bytes(CHUNK), file)
        if etag is not None and etag.strip('"') != found:
            raise ProtocolMismatch(f"{path} came with the sha256 {found}, but {etag} was stored: try again")
        await asyncio.to_thread(draft.replace, to)
    finally:
        with suppress(FileNotFoundError):
            await asyncio.to_thread(draft.unlink)
    return to


async def _write(pieces: AsyncIterator[bytes], file: Any) -> str:
    """Write the pieces and return their digest."""
    digest = hashlib.sha256()
    async for piece in pieces:
        digest.update(piece)
        await asyncio.to_thread(file.write, piece)
    return digest.hexdigest()
