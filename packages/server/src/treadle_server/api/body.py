"""Request bodies, read within a bound."""

from starlette.requests import Request

from treadle_server.errors import PayloadTooLarge
from treadle_server.operations.arriving import Body


async def read(request: Request, limit: int, arriving: Body) -> bytes:
    """Return the body, whose bytes `arriving` counts.

    Before all of it is read it raises `PayloadTooLarge` beyond `limit` bytes, and `TooManyRequests` when the bodies
    under way are too large together.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        arriving.grow(size)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes; send less, or in several requests")
