"""Writes a link's events to a file that can be replayed without a server.

A recording is NDJSON, gzip-compressed if its name ends in `.gz`. The first line is a header. Every other line has the
seconds since the start, and one of `opened`, `lost`, `push`, `ask` or `end`.
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
"""The most bytes in a recording, before compression: some hours of a busy queue."""

FLUSH_SECONDS = 1.0
"""How many seconds of a recording may be lost if the dashboard is killed."""


CLOSED = "closed"
"""The reason for the end of a recording when the user left the dashboard."""


class RecordingError(Exception):
    """A recording can't be written or read: which file, which line, and what to do."""


class Recorder:
    """Writes one recording. Stops by itself when the recording or the disk is full."""

    def __init__(
        self, path: Path, *, server_name: str, clock: Clock | None = None, most_bytes: int = MOST_BYTES
    ) -> None:
        """Create the file, readable by its owner only. Raises `RecordingError` if it exists or can't be created."""
        self.path = path
        self.size = 0
        """Bytes so far, before compression."""
        self.ended: str | None = None
        """Why the recording ended; None while it goes on."""
        self._clock = clock or SystemClock()
        self._most = most_bytes
        self._begun = self._flushed = self._clock.steady()
        self._seconds = 0.0
        self._file = _create(path)
        header = {"treadle": "recording", "format": FORMAT, "at": self._clock.now().isoformat(), "place": server_name}
        self._line(json.dumps(header).encode())

    def note(self, event: Event) -> None:
        """Record an event of the link."""
        match event:
            case Opened(hello):
                self._put("opened", dict(hello))
            case Pushed(push):
                self._put("push", dict(push))
            case Lost(detail, refused, denied=denied):
                self._put("lost", {"detail": detail, "refused": refused, "denied": denied})

    def asked(self, op: str, fields: dict[str, Any]) -> None:
        """Record which subscription was requested, since pushes name it only by its id."""
        if op in {"watch", "unwatch"}:
            self._put("ask", {"op": op, **fields})

    def close(self) -> None:
        """Finish the file."""
        self._end(CLOSED)

    def summary(self) -> str:
        """Return a line for the user: how much was recorded, why it stopped early if it did, and how to replay it."""
        why = f"; then {self.ended}" if self.ended not in {None, CLOSED} else ""
        size = f"{self._seconds:.0f} s, {self.size / 1e6:,.1f} MB"
        return f"Recorded {size}{why}. Replay it: treadle watch --replay {self.path}"

    def _put(self, kind: str, value: object) -> None:
        if self.ended is not None:
            return
        self._seconds = self._clock.steady() - self._begun
        line = b'{"t":%.3f,"%s":%s}' % (self._seconds, kind.encode(), to_json(value))
        if self.size + len(line) > self._most:
            self._end(f"it reached the maximum of {self._most // 1_000_000:,} MB")
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
            # The dashboard matters more than its recording: it goes on, and reports the error.
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
        # Tasks carry private data: only the owner may read it.
        raw = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")
    except FileExistsError:
        raise RecordingError(f"{path} already exists: record to another file, or remove it") from None
    except OSError as error:
        raise RecordingError(f"{path} can't be written: {error.strerror or error}") from None
    return _Compressed(raw) if path.suffix == ".gz" else raw


class _Compressed(gzip.GzipFile):
    """A gzip file that also closes the file beneath it."""

    def __init__(self, raw: IO[bytes]) -> None:
        super().__init__(fileobj=raw, mode="wb", compresslevel=5)
        self._raw = raw

    def close(self) -> None:
        """Close both files."""
        try:
            super().close()
        finally:
            self._raw.close()


class RecordingLink:
    """A link that records each event before passing it on."""

    def __init__(self, link: Link, recorder: Recorder) -> None:
        self._link = link
        self._recorder = recorder

    async def run(self, sink: Callable[[Event], None]) -> None:
        """Run the link until cancelled, then finish the recording."""

        def tell(event: Event) -> None:
            self._recorder.note(event)
            sink(event)

        try:
            await self._link.run(tell)
        finally:
            self._recorder.close()

    async def request(self, op: str, **fields: Any) -> dict[str, Any]:
        """Record the request and return the link's answer. Raises `ProblemError` or `ConnectionFailed`."""
        self._recorder.asked(op, fields)
        return await self._link.request(op, **fields)

    @property
    def received(self) -> int:
        """The bytes received over the current connection."""
        return self._link.received

    def reset(self) -> None:
        """Drop the current connection."""
        self._link.reset()
