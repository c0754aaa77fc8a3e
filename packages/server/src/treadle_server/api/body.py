"""Request bodies, read up to a limit."""

from typing import Self

from starlette.requests import Request

from treadle_server.errors import PayloadTooLarge
from treadle_server.operations.arriving import Arriving


class Body:
    """The body of one request. Its bytes count as in use until the block ends, in which the request is answered."""

    def __init__(self, arriving: Arriving) -> None:
        self._arriving = arriving
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._arriving.note(self._size, 0, growing=0)

    async def read(self, request: Request, limit: int) -> bytes:
        """Return the body.

        Raises `PayloadTooLarge` as soon as it has more than `limit` bytes, and `TooManyRequests` as soon as the bodies
        of all requests in progress are too large together.
        """
        declared = request.headers.get("content-length", "")
        if declared.isdecimal() and int(declared) > limit:
            raise _too_large(limit)
        parts: list[bytes] = []
        async for part in request.stream():
            before, size = self._size, self._size + len(part)
            if size > limit:
                raise _too_large(limit)
            self._size = size
            self._arriving.note(before, size, growing=size)
            parts.append(part)
        return b"".join(parts)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes; send less, or in several requests")
