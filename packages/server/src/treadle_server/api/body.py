"""Request bodies, read within a bound."""

from typing import Self

from starlette.requests import Request

from treadle_server.errors import PayloadTooLarge
from treadle_server.operations.arriving import Arriving


class Body:
    """One request's body, whose bytes count from the first one until the block ends, in which it is answered."""

    def __init__(self, arriving: Arriving) -> None:
        self._arriving = arriving
        self._size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._arriving.note(self._size, 0, growing=0)

    async def read(self, request: Request, limit: int) -> bytes:
        """Return it.

        Before all of it is read it raises `PayloadTooLarge` beyond `limit` bytes, and `TooManyRequests` when the bodies
        under way are too large together.
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
