"""The object store: objects are written, read and removed as streams of bounded size, on every kind of store.

The store's own threads must never call into Python: with obstore's asynchronous functions they do, and when one does so
while the interpreter exits, the process aborts (8 of 12 times after a listing). So everything is called in our own
threads, and not in the loop's few ones, which others need: a silent store keeps each busy for a minute.
"""

import asyncio
import hashlib
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from secrets import token_hex
from time import monotonic
from typing import Literal, TypeVar

from obstore import open_writer, sign
from obstore.exceptions import BaseError
from obstore.store import LocalStore, MemoryStore, S3Store

from treadle_server.artifacts.backends import open_store
from treadle_server.artifacts.coming import ComingPieces
from treadle_server.errors import StoreUnavailable

log = logging.getLogger(__name__)

CHUNK = 1024 * 1024
"""Bytes that are read at once."""

PART = 5 * 1024 * 1024
"""Bytes of a part of an upload to a cloud, the smallest size that clouds accept. Two are sent at once."""

MOST_HELD = 1024 * 1024 * 1024
"""Most bytes that uploads hold in memory. Each holds up to four parts: so 256 run at once, or 51 to a cloud; further
ones wait."""

MOST_WRITES = 32
"""Threads that write. An upload uses one while there is something to write, and none while its client is silent."""

MOST_READS = 32
"""Threads for everything else."""

RETRY_AFTER = 5.0

LONGEST_FAILING = 10.0
"""Seconds of failures after which a removal of several objects stops: an unreachable store delays each."""

_UNFINISHED = re.compile(r".*#\d+")
"""The name of a file that the store is still writing; it is renamed when it is complete."""

_OF_ONE = re.compile(r"(?<=/)[^/\s]*-[0-9a-f]{12,16}(#\d+)?(?![0-9a-z])|(?<=\bin )[\d.]+\w*s\b")
"""The parts of a failure's text that are specific to one object: its name, and for how long it was tried."""

_SAID = re.compile(r"<Code>([^<]*)</Code>\s*<Message>([^<\n]*)")
"""The code and message in a cloud's XML error. What follows them is specific to the request."""

_DENIED = "<Code>AccessDenied</Code>"
"""A cloud's error for an action that the key does not permit; an invalid key has another one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stored:
    """An object's properties, from reading it."""

    size: int
    sha256: bytes
    content_type: str | None
    """None if the store has none."""


class Objects:
    """Stores objects under a prefix for the database, so that several databases may share a bucket."""

    def __init__(self, url: str, directory: Path | None) -> None:
        self._store = open_store(url, directory)
        self.presigns = isinstance(self._store, S3Store)
        """Whether clients put and get objects directly at the store, by signed URLs."""
        self._part = CHUNK if isinstance(self._store, LocalStore | MemoryStore) else PART
        self.site = ""
        """The prefix of this database's objects."""
        self._room = asyncio.Semaphore(MOST_HELD // (4 * self._part))
        self._coming: dict[ComingPieces, asyncio.Future[None]] = {}
        """The uploads in progress, each with a future that is done when it is over."""
        self._writers = ThreadPoolExecutor(MOST_WRITES, thread_name_prefix="treadle-artifacts")
        self._readers = ThreadPoolExecutor(MOST_READS, thread_name_prefix="treadle-artifacts-read")

    def staging(self, artifact_id: str) -> str:
        """Return the location for a client's direct upload to the store; nothing is served from there."""
        return f"{self.site}/staging/{artifact_id}"

    def fresh(self, artifact_id: str) -> str:
        """Return a unique location that no client has a URL for."""
        return f"{self.site}/{artifact_id}-{token_hex(8)}"

    async def close(self) -> None:
        """End the uploads in progress, and the threads."""
        for coming in self._coming:
            coming.stop()
        if self._coming:
            await asyncio.wait(self._coming.values())
        for threads in (self._writers, self._readers):
            await asyncio.to_thread(threads.shutdown)

    async def put(self, location: str, pieces: AsyncIterator[bytes]) -> None:
        """Store an object, whole or not at all. Raises what `pieces` raises, `ValidationFailed`, `StoreUnavailable`."""
        coming = ComingPieces(pieces)
        over = self._coming[coming] = asyncio.get_running_loop().create_future()
        try:
            async with self._room:
                with _failures_explained():
                    await self._write(location, coming)
        finally:
            del self._coming[coming]
            over.set_result(None)
        if isinstance(self._store, LocalStore) and self._store.prefix is not None:
            with _failures_explained():  # a full or broken disk may show only now
                await self._asked(_sync, self._store.prefix / location)

    async def _write(self, location: str, coming: ComingPieces) -> None:
        # An upload smaller than a part is sent in one request, when the file is closed.
        file = open_writer(self._store, location, buffer_size=self._part, max_concurrency=2)
        try:
            while (piece := await coming.next()) is not None:
                await self._in_thread(file.write, piece)
            await self._in_thread(file.close)
        except BaseException as error:
            with suppress(BaseError, OSError):  # if the store can't discard it, the sweeper removes it from a directory
                await self._in_thread(file.__exit__, type(error), error, error.__traceback__)
            raise

    async def _in_thread(self, call: Callable[..., T], *given: object) -> T:
        """Call a function in a writer thread and await its end, even if cancelled: a file allows one call at a time."""
        working = asyncio.get_running_loop().run_in_executor(self._writers, call, *given)
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            await asyncio.wait([working])
            working.exception()  # retrieved, so that asyncio does not warn of a failure after the cancellation
            raise

    async def _asked(self, call: Callable[..., T], *given: object) -> T:
        """Call a function in a reader thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, call, *given)

    async def _each(self, found: Iterator[T]) -> AsyncIterator[T]:
        """Yield the iterator's items, each fetched in a reader thread. Raises `StoreUnavailable`."""
        while True:
            with _failures_explained():
                item = await self._asked(next, found, None)
            if item is None:
                return
            yield item

    async def get(self, location: str, *, start: int = 0, end: int) -> AsyncIterator[bytes]:
        """Return the bytes from `start` to before `end`, piece by piece.

        Raises `FileNotFoundError` when there is no object, or a shorter one, and `StoreUnavailable`, possibly midway.
        """
        if start >= end:
            return self._each(iter(()))
        with _failures_explained():
            found = await self._asked(partial(self._store.get, location, options={"range": (start, end)}))
            if found.meta["size"] < end:
                raise FileNotFoundError(f"{location} has {found.meta['size']} bytes, but once had {end}")
        return self._each(found.stream(min_chunk_size=CHUNK))

    async def copy(self, source: str, target: str) -> None:
        """Copy an object within the store. Raises `FileNotFoundError` and `StoreUnavailable`."""
        with _failures_explained():
            await self._asked(self._store.copy, source, target)

    async def read(self, location: str) -> Stored:
        """Read a whole object, and return its properties. Raises `FileNotFoundError` and `StoreUnavailable`."""
        with _failures_explained():
            return await self._asked(self._read, location)

    def _read(self, location: str) -> Stored:
        digest, size = hashlib.sha256(), 0
        found = self._store.get(location)
        for piece in found.stream(min_chunk_size=CHUNK):
            digest.update(piece)
            size += len(piece)
        return Stored(size, digest.digest(), found.attributes.get("Content-Type"))

    async def size_of(self, location: str) -> int:
        """Return an object's size in bytes. Raises `FileNotFoundError` and `StoreUnavailable`."""
        with _failures_explained():
            return (await self._asked(self._store.head, location))["size"]

    async def remove(self, locations: Collection[str]) -> int:
        """Remove objects without a row, and return how many were removed; those that don't exist are ignored.

        A failure to remove one is logged, and does not keep the others: the sweeper will find it by its age.
        """
        removed, failing = 0, 0.0
        for location in locations:
            began = monotonic()
            try:
                with _failures_explained():
                    await self._asked(self._store.delete, location)
            except FileNotFoundError:
                continue
            except StoreUnavailable:
                failing += monotonic() - began
                if failing > LONGEST_FAILING:
                    break
            else:
                removed += 1
        return removed

    async def older_than(self, instant: datetime) -> AsyncIterator[list[str]]:
        """Yield the locations of this database's objects that were written before `instant`, a page at a time.

        Yields nothing when the server's key does not permit listing the bucket, which putting, getting and removing
        objects does not need. Raises `StoreUnavailable`.
        """
        try:
            async for found in self._each(self._store.list(self.site, chunk_size=500)):
                yield [meta["path"] for meta in found if meta["last_modified"] < instant]
        except StoreUnavailable as error:
            if _DENIED not in str(error.__cause__):
                raise
            log.warning(
                "the server may not list the artifacts' bucket, so objects that a crash left without a row stay there:"
                " allow s3:ListBucket to have them removed"
            )

    async def remove_unfinished(self, instant: datetime) -> int:
        """Remove unfinished uploads of a killed server, last written before `instant`; return how many they were.

        Only a directory has them, and the store does not list them. Raises `StoreUnavailable`.
        """
        if not isinstance(self._store, LocalStore) or self._store.prefix is None:
            return 0
        with _failures_explained():
            return await self._asked(_remove_unfinished, self._store.prefix / self.site, instant)

    async def url(self, method: Literal["PUT", "GET", "HEAD"], location: str, seconds: float) -> str:
        """Return a URL for direct access to the object at the store, valid for `seconds`. Raises `StoreUnavailable`."""
        assert isinstance(self._store, S3Store)
        with _failures_explained():
            # In a thread of the writers, which are idle with such a store; signing needs no answer from the store.
            return await self._in_thread(sign, self._store, method, location, timedelta(seconds=seconds))


@contextmanager
def _failures_explained() -> Iterator[None]:
    """Convert a store's failure into `StoreUnavailable`, which clients retry; `FileNotFoundError` passes unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        # After the first line, the library prints the structure of its error. Equal failures get equal texts, so that
        # they fold into one log line: a store that is down fails for each requested object.
        told, is_xml, _ = str(error).partition("\n")[0].partition("<?xml")
        said = _SAID.search(str(error)) if is_xml else None
        cause = _OF_ONE.sub("…", told) + (": ".join(said.groups()) if said else "")
        log.warning("the artifact store failed: %s", cause[:1000])
        raise StoreUnavailable(
            f"the artifact store failed ({cause[:300]}); nothing was changed, try again",
            retry_after=RETRY_AFTER,
        ) from error


def _remove_unfinished(directory: Path, instant: datetime) -> int:
    removed = 0
    for path in directory.glob("*#*"):
        # Its upload may end at this very moment; and a file that can't be removed must not keep the others.
        with suppress(FileNotFoundError, StoreUnavailable), _failures_explained():
            if _UNFINISHED.fullmatch(path.name) and path.stat().st_mtime < instant.timestamp():
                path.unlink()
                removed += 1
    return removed


def _sync(path: Path) -> None:
    """Sync a file and its directory entry to disk: the row that makes it visible survives a loss of power, too."""
    for each in (path, path.parent):
        descriptor = os.open(each, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
