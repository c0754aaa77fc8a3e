"""What a task uploads: bytes, or a file; and the upload, which is awaited or done."""

import asyncio
import mimetypes
import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Coroutine, Generator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from treadle.errors import InvalidArguments
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
    """Something to be uploaded under a name: bytes, or a file, which may grow meanwhile and change in no other way."""

    data: bytes | Path
    name: str
    content_type: str


def content_of(source: "bytes | Path", name: str | None, content_type: str | None) -> Content:
    """Return what is to be uploaded; a file's name is its own unless another is given.

    Raises `InvalidArguments` for a missing file, for bytes without a name, and for a name or type that is none.
    """
    if isinstance(source, Path) and not source.is_file():
        raise InvalidArguments(f"{source} is no file: upload a path, bytes, or an async iterator of bytes")
    if name is None:
        if not isinstance(source, Path):
            raise InvalidArguments("bytes have no name of their own: upload(data, name='…')")
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
    """Return whether the source is an async iterator. Raises `InvalidArguments` where none can be awaited."""
    if not isinstance(source, AsyncIterable):
        return False
    if not has_loop():
        raise InvalidArguments("an async iterator is uploaded by async code: give bytes or a path here")
    return True


def plain(source: Source) -> bytes | Path:
    """Return bytes as they are, and a path as one. Raises `InvalidArguments` for anything else."""
    if isinstance(source, bytes | bytearray | memoryview):
        return bytes(source)
    if isinstance(source, str | os.PathLike):
        return Path(source)
    raise InvalidArguments(f"{brief(source)} is no file: upload a path, bytes, or an async iterator of bytes")


@asynccontextmanager
async def spooled(source: "AsyncIterable[bytes]") -> AsyncIterator[Path]:
    """Give a file with all that the iterator yields, for its size must be known before it is sent.

    Raises `InvalidArguments` for what is no bytes.
    """
    descriptor, name = tempfile.mkstemp(prefix="treadle-")
    try:
        with os.fdopen(descriptor, "wb") as file:
            async for piece in source:
                if not isinstance(piece, bytes | bytearray | memoryview):
                    raise InvalidArguments(f"the async iterator yielded {brief(piece)}, and what is uploaded is bytes")
                await asyncio.to_thread(file.write, piece)
        yield Path(name)
    finally:
        Path(name).unlink()  # noqa: ASYNC240 - a temporary file's, which takes microseconds


class Uploading:
    """An upload: `await` it for the artifact; in threads and processes it is done, and `item` has the artifact."""

    def __init__(self, work: "Coroutine[Any, Any, ArtifactItem] | ArtifactItem") -> None:
        self.work = work
        self._item: ArtifactItem | None = None if isinstance(work, Coroutine) else work

    @property
    def item(self) -> "ArtifactItem":
        """The stored artifact. Raises `RuntimeError` in async code that did not await the upload."""
        if self._item is None:
            raise RuntimeError("the upload was not awaited: item = await ctx.upload(…)")
        return self._item

    def __await__(self) -> "Generator[Any, None, ArtifactItem]":
        if self._item is None:
            assert isinstance(self.work, Coroutine)
            self._item = yield from self.work.__await__()
        return self._item
