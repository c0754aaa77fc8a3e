"""Uploads of a task: their content, bytes or a file, and the awaitable upload itself."""

import asyncio
import mimetypes
import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.errors import InvalidArguments, NotAwaited
from treadle.loops import has_loop
from treadle.values import brief
from treadle.wire.artifacts import check_artifact_name, check_media_type

if TYPE_CHECKING:
    from treadle.wire.artifacts import ArtifactItem

Source: TypeAlias = "bytes | bytearray | memoryview | str | os.PathLike[str] | AsyncIterable[bytes]"
"""Bytes, the path of a file, or an async iterator of bytes."""

DEFAULT_TYPE = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class Content:
    """Content to upload under a name: bytes, or a file, which may grow meanwhile but must not change otherwise."""

    data: bytes | Path
    name: str
    content_type: str


def content_of(source: "bytes | Path", name: str | None, content_type: str | None) -> Content:
    """Return the content to upload, by default under the file's own name.

    Raises `InvalidArguments` for a missing file, bytes without a name, and an invalid name or type.
    """
    if isinstance(source, Path) and not source.is_file():
        raise InvalidArguments(f"{source} is not a file: upload a path, bytes, or an async iterator of bytes")
    if name is None:
        if not isinstance(source, Path):
            raise InvalidArguments("bytes have no name: use upload(data, name='…')")
        name = source.name
    if content_type is None:
        content_type = mimetypes.guess_type(name)[0] or DEFAULT_TYPE
    for value, check, what in ((name, check_artifact_name, "name"), (content_type, check_media_type, "content_type")):
        try:
            check(value)
        except ValueError as error:
            raise InvalidArguments(f"{what}: {value[:255]!r} {error}") from None
    return Content(source.resolve() if isinstance(source, Path) else source, name, content_type)


def is_stream(source: Source) -> bool:
    """Return whether the source is an async iterator. Raises `InvalidArguments` if it is and can't be awaited here."""
    if not isinstance(source, AsyncIterable):
        return False
    if not has_loop():
        raise InvalidArguments("an async iterator needs async code: give bytes or a path here")
    return True


def plain(source: Source) -> bytes | Path:
    """Return bytes, or a path as a `Path`. Raises `InvalidArguments` for anything else."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return Path(source)
    raise InvalidArguments(f"{brief(source)} is not a file: upload a path, bytes, or an async iterator of bytes")


@asynccontextmanager
async def spooled(source: "AsyncIterable[bytes]") -> AsyncIterator[Path]:
    """Provide a temporary file with all that the iterator yields, as its size must be known before it is sent.

    Raises `InvalidArguments` for anything but bytes.
    """
    descriptor, name = tempfile.mkstemp(prefix="treadle-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for piece in source:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise InvalidArguments(f"the async iterator yielded {brief(piece)} instead of bytes")
                await asyncio.to_thread(file.write, piece)
        yield Path(name)
    finally:
        Path(name).unlink()  # noqa: ASYNC240 - of a temporary file, which takes microseconds


class Uploading:
    """An upload: `await` it for the artifact; in threads and processes it is already done: `item` is the artifact."""

    def __init__(self, work: "Coroutine[Any, Any, ArtifactItem] | ArtifactItem") -> None:
        self.work = work
        self._item: ArtifactItem | None = None if isinstance(work, Coroutine) else work

    @property
    def item(self) -> "ArtifactItem":
        """The stored artifact. Raises `NotAwaited` in async code that did not await the upload."""
        if self._item is None:
            raise NotAwaited("the upload was never awaited: write item = await ctx.upload(…)")
        return self._item

    def __await__(self) -> "Generator[Any, None, ArtifactItem]":
        if self._item is None:
            assert isinstance(self.work, Coroutine)
            self._item = yield from self.work.__await__()
        return self._item
