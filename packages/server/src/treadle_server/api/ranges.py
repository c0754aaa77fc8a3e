"""Parts of a body: which bytes a `Range` asks for (RFC 9110), and under which name a body is saved."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

_ONE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


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


def span_of(headers: Mapping[str, str], size: int, etag: str) -> ByteRange:
    """Return the bytes that are asked for: all, unless a `Range` names one part that there is, of this very body.

    Several parts, or one that there is not, are answered by all: a range is a wish (RFC 9110, 14.2).
    """
    whole = ByteRange(0, size, size)
    match = _ONE.fullmatch(headers.get("range", "").strip())
    if match is None or headers.get("if-range", etag) != etag:
        return whole
    first, last = match.groups()
    if first:
        start, end = int(first), min(int(last) + 1 if last else size, size)
    else:
        start, end = max(0, size - int(last or 0)), size
    return ByteRange(start, end, size, is_part=True) if start < end else whole


def disposition(name: str) -> str:
    """Return the Content-Disposition that has a browser save the body, under the last segment of `name` (RFC 6266)."""
    file = name.rsplit("/", 1)[-1]
    plain = re.sub(r"[^ !#-\[\]-~]", "_", file)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file, safe='')}"
