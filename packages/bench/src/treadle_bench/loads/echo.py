"""A socket that echoes what it gets, and its client: no submit can be faster than that."""

import os
import time

from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection
from websockets.asyncio.server import serve as serve_sockets

from treadle_bench.loads.process import say, stopped


async def serve() -> dict[str, bool]:
    """Echo messages until stopped."""

    async def echo(socket: ServerConnection) -> None:
        async for message in socket:
            await socket.send(message)

    async with serve_sockets(echo, "127.0.0.1", 0, compression=None) as server:
        say({"port": server.sockets[0].getsockname()[1]})
        await stopped()
    return {"stopped": True}


async def ask(port: int, count: int) -> list[float]:
    """Send this many small messages, each after the previous echo; return the ms that each took."""
    message, times = os.urandom(64).hex(), []
    async with connect(f"ws://127.0.0.1:{port}", compression=None) as socket:
        for _ in range(count):
            began = time.perf_counter()
            await socket.send(message)
            await socket.recv()
            times.append((time.perf_counter() - began) * 1000)
    return times
