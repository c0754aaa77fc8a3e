"""Downloads of artifacts: streamed to a file that appears once it is complete and its digest was checked."""

import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from errno import EEXIST, EISDIR
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from treadle.errors import ProtocolMismatch
from treadle.loops import in_thread

if TYPE_CHECKING:
    from treadle.transport.http import HttpChannel

CHUNK = 1024 * 1024
"""Bytes that are written at once."""


async def download(channel: "HttpChannel", path: str, to: Path, *, params: dict[str, Any] | None = None) -> Path:
    """Save the artifact at `path` as the file `to`, which is replaced if it exists, and return `to`.

    Raises `OSError` when the file can't be written, or is a directory, a device, a pipe or a socket; `ProtocolMismatch`
    when the bytes are not those that were stored; and what `HttpChannel.stream` raises.
    """
    draft = to.with_name(f".{to.name[:50]}.{secrets.token_hex(4)}")
    try:
        with ExitStack() as opened:
            file = await in_thread(_begin, draft, to, opened)
            async with channel.stream(path, params=params) as (answer, etag):
                found = await _write(answer.aiter_bytes(CHUNK), file)
        # A proxy may have turned the ETag into a weak one.
        if etag.removeprefix("W/").strip('"') != found:
            raise ProtocolMismatch(
                f"{path} was downloaded with the sha256 {found}, but was stored with {etag}: try again"
            )
        await in_thread(draft.replace, to)
    finally:
        with suppress(FileNotFoundError):
            await in_thread(draft.unlink)
    return to


def _begin(draft: Path, to: Path, opened: ExitStack) -> IO[bytes]:
    """Open the draft, with the permissions that this process gives new files; `opened` closes it."""
    if to.is_dir():
        raise IsADirectoryError(EISDIR, os.strerror(EISDIR), str(to))
    if to.exists() and not to.is_file():
        # With enough rights, this would replace even /dev/null by a file, for everyone who writes there.
        raise FileExistsError(EEXIST, "It is a device, a pipe or a socket, which would be replaced by a file", str(to))
    return opened.enter_context(draft.open("xb"))


async def _write(pieces: AsyncIterator[bytes], file: Any) -> str:
    """Write the pieces and return their digest."""
    digest = hashlib.sha256()
    async for piece in pieces:
        digest.update(piece)
        await in_thread(file.write, piece)
    return digest.hexdigest()
