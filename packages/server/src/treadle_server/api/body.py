"""Request bodies, read within a bound."""

from starlette.requests import Request

from treadle_server.errors import PayloadTooLarge


async def read(request: Request, limit: int) -> bytes:
    """Return the body. Raises `PayloadTooLarge` beyond `limit` bytes, before all of it is read."""
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared) > limit:
        raise _too_large(limit)
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        parts.append(part)
    return b"".join(parts)


def _too_large(limit: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"the body is larger than {limit} bytes; send less, or in several requests")
