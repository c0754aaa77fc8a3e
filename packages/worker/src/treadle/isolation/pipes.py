"""Messages between a worker and its child processes: JSON preceded by its length, over a socket pair."""

import asyncio
import socket
import struct
from typing import Any

from pydantic_core import from_json, to_json

Message = dict[str, Any]

_LENGTH = struct.Struct("!I")


def encode(message: Message) -> bytes:
    """Return a message in its written form."""
    body = to_json(message)
    return _LENGTH.pack(len(body)) + body


def receive(sock: socket.socket) -> Message:
    """Read one message, blocking; raise `EOFError` when the other end is gone."""
    (size,) = _LENGTH.unpack(_exactly(sock, _LENGTH.size))
    message: Message = from_json(_exactly(sock, size))
    return message


async def read(reader: asyncio.StreamReader) -> Message:
    """Read one message; raise `EOFError` when the other end is gone."""
    try:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        message: Message = from_json(await reader.readexactly(size))
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise EOFError("the other side is gone") from error
    return message


def _exactly(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise EOFError("the other side is gone")
        parts += part
    return bytes(parts)
