"""Conditional and range requests (RFC 9110), and the name under which a browser saves a body."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from starlette.datastructures import Headers

from treadle_server.errors import RangeNotSatisfiable

_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` to before `end`, of `size`."""

    start: int
    end: int
    size: int
    is_part: bool = False

    @property
    def status(self) -> int:
        """Return the status of an answer with them."""
        return 206 if self.is_part else 200

    @property
    def headers(self) -> dict[str, str]:
        """Return the headers that describe them."""
        described = {"Content-Length": str(self.end - self.start)}
        if self.is_part:
            described["Content-Range"] = f"bytes {self.start}-{self.end - 1}/{self.size}"
        return described


def is_known(headers: Headers, etag: str) -> bool:
    """Return whether the client has this body already (`If-None-Match`; RFC 9110, 13.1.2)."""
    tags = {tag.strip().removeprefix("W/") for line in headers.getlist("if-none-match") for tag in line.split(",")}
    return etag in tags or "*" in tags


def span_of(method: str, headers: Headers, size: int, etag: str) -> ByteRange:
    """Return the requested bytes: all of them, unless a GET's `Range` names one part of this body.

    A `Range` with several parts, or with none, is ignored, as it may be (RFC 9110, 14.2). So is any range of an empty
    body, which no `Content-Range` can describe. Raises `RangeNotSatisfiable` for a part that begins after the end.
    """
    whole = ByteRange(0, size, size)
    match = _ONE.fullmatch(headers.get("range", "").strip())
    if match is None or method != "GET" or not size or headers.get("if-range", etag) != etag:
        return whole
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else size, size)
    elif last:
        start, end = max(0, size - int(last)), size
    else:
        return whole
    if start >= size:
        raise RangeNotSatisfiable(f"Range: {match[0]} begins after the last of {size} bytes", size=size)
    return ByteRange(start, end, size, is_part=True) if start < end else whole


def disposition(name: str) -> str:
    """Return the Content-Disposition that makes browsers save the body under the last segment of `name` (RFC 6266)."""
    file = name.rsplit("/", 1)[-1]
    plain = re.sub(r"[^ !#-\[\]-~]", "_", file)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file, safe='')}"
