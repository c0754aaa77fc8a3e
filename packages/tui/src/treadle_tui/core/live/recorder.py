"""Writes what a link brings into a file, so that it can be looked at again without a server.

A recording is NDJSON, compressed where its name ends in `.gz`. The first line says what it is; every other one has
the seconds since it was begun, and one of `opened`, `lost`, `push`, `ask` or `end`.
"""

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from pydantic_core import to_json

from treadle_tui.core.live.feed import Event, Link, Lost, Opened, Pushed
from treadle_tui.core.state.clock import Clock, SystemClock

FORMAT = 1

MOST_BYTES = 256 * 1024 * 1024
"""Bytes of one recording at most, before they are compressed: some hours of a busy queue."""

FLUSH_SECONDS = 1.0
"""How much of a recording is lost at most when the dashboard is killed."""


CLOSED = "closed"
"""Why a recording ended whose dashboard was left."""


class RecordingError(Exception):
    """A recording that can't be written or read: which file, where, and what to do."""


class Recorder:
    """One file that is being written; ends by itself when it is full or the disk is."""

    def __init__(
        self, path: Path, *, server_name: str, clock: Clock | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        """Begin a new file, which only its owner can read. Raises `RecordingError` when there is one already."""
        self.path = path
        self.size = 0
        """Bytes so far, before they are compressed."""
        self.ended: str | None = None
        """Why nothing is written any more; None while it goes on."""
        self._clock = clock or SystemClock()
        self._most = most_bytes
        self._begun = self._flushed = self._clock.steady()
        self._seconds = 0.0
        self._file = _create(path)
        header = {"treadle": "recording", "format": FORMAT, "at": self._clock.now().isoformat(), "place": server_name}
        self._line(json.dumps(header).encode())

    def note(self, event: Event) -> None:
        """Write what the link told."""
        match event:
            case Opened(hello):
                self._put("opened", dict(hello))
            case Pushed(push):
                self._put("push", dict(push))
            case Lost(detail, refused, denied=denied):
                self._put("lost", {"detail": detail, "refused": refused, "denied": denied})

    def asked(self, op: str, fields: dict[str, Any]) -> None:
        """Write which part was asked for, since pushes name it by its subscription alone."""
        if op in {"watch", "unwatch"}:
            self._put("ask", {"op": op, **fields})

    def close(self) -> None:
        """End the file in good order."""
        self._end(CLOSED)

    def summary(self) -> str:
        """Return what was recorded, where, and why no more of it, in words for the reader who has left."""
        why = f"; then {self.ended}" if self.ended not in {None, CLOSED} else ""
        size = f"{self._seconds:.0f} s, {self.size / 1e6:,.1f} MB"
        return f"Recorded {size}{why}. Show it: treadle watch --replay {self.path}"

    def _put(self, kind: str, value: object) -> None:
        if self.ended is not None:
            return
        self._seconds = self._clock.steady() - self._begun
        line = b'{"t":%.3f,"%s":%s}' % (self._seconds, kind.encode(), to_json(value))
        if self.size + len(line) > self._most:
            self._end(f"it has {self._most // 1_000_000:,} MB, and that is the most")
        else:
            self._line(line)

    def _line(self, line: bytes) -> None:
        try:
            self._file.write(line + b"\n")
            self.size += len(line) + 1
            if self._clock.steady() - self._flushed >= FLUSH_SECONDS:
                self._flushed = self._clock.steady()
                self._file.flush()
        except OSError as error:
            # The dashboard is worth more than its recording: it goes on, and says so.
            self.ended = f"{self.path} can't be written: {error.strerror or error}"

    def _end(self, reason: str) -> None:
        if self.ended is not None:
            return
        self._line(b'{"t":%.3f,"end":%s}' % (self._clock.steady() - self._begun, to_json(reason)))
        self.ended = self.ended or reason
        try:
            self._file.close()
        except OSError as error:
            self.ended = f"{self.path} can't be written: {error.strerror or error}"


def _create(path: Path) -> "IO[bytes] | _Compressed":
    try:
        # What tasks carry is nobody else's business.
        raw = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        raise RecordingError(f"{path} is there already: record into another file, or remove it") from None
    except OSError as error:
        raise RecordingError(f"{path} can't be written: {error.strerror or error}") from None
    return _Compressed(raw) if path.suffix == ".gz" else raw


class _Compressed(gzip.GzipFile):
    """A gzip file that closes the file beneath it as well."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="wb", compresslevel=5)
        self._raw = raw

    def close(self) -> None:
        """End both."""
        try:
            super().close()
        finally:
            self._raw.close()


class RecordingLink:
    """A link whose every event goes into a recording before it is shown."""

    def __init__(self, link: Link, recorder: Recorder) -> None:
        self._link = link
        self._recorder = recorder

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Run the link until cancelled, and then end the recording."""

        def tell(event: Event) -> None:
            self._recorder.note(event)
            sink(event)

        try:
            await self._link.run(tell)
        finally:
            self._recorder.close()

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Return the link's answer; raises `ProblemError` or `ConnectionFailed`."""
        self._recorder.asked(op, fields)
        return await self._link.request(op, **fields)

    @property
    def received(self) -> int:
        """How many bytes have come over the present connection."""
        return self._link.received

    def reset(self) -> None:
        """Give the present connection up."""
        self._link.reset()
