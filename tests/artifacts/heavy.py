"""Puts one large artifact through a server in this process and fetches it; prints by how much its memory grew."""

import asyncio
import hashlib
import json
import resource
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from tests.api.rooms import make_room
from treadle_server.testing import serve

PIECE = bytes(range(256)) * 256


async def pieces(size: int) -> AsyncIterator[bytes]:
    """Yield `size` bytes, 64 kB at a time."""
    for start in range(0, size, len(PIECE)):
        yield PIECE[: size - start]


async def passed(http: httpx.AsyncClient, task: str, name: str, size: int) -> None:
    """Put an artifact, fetch it, and compare digests; nowhere is more than a piece of it held."""
    wanted = {"name": name, "content_length": size}
    upload = (await http.post(f"/v1/tasks/{task}/runs/0/artifacts", json=wanted)).json()
    headers = {**upload["headers"], "Content-Length": str(size)}
    stored = await http.put(upload["put_url"], content=pieces(size), headers=headers)
    assert stored.status_code == 201, stored.text
    digest = hashlib.sha256()
    async with http.stream("GET", f"/v1/tasks/{task}/artifacts/{name}") as answer:
        async for piece in answer.aiter_bytes():
            digest.update(piece)
    assert digest.hexdigest() == stored.json()["sha256"]


def highest() -> int:
    """Return the most memory that this process ever had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def main(size: int, directory: Path) -> dict[str, Any]:
    """Return by how many bytes the memory grew over what a small artifact needs, and the seconds that it took."""
    async with serve(data_dir=directory) as served:
        given: dict[str, Any] = {"base_url": served.url, "headers": served.headers, "timeout": 60}
        async with httpx.AsyncClient(**given) as http:
            room = await make_room(http)
            await room.submit(lease_seconds=3600)
            task = (await room.start())["id"]
            await passed(http, task, "small", 3_000_000)
            before, since = highest(), time.perf_counter()
            await passed(http, task, "large", size)
            return {"grown": highest() - before, "seconds": round(time.perf_counter() - since, 2)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="treadle-") as name:
        print(json.dumps(asyncio.run(main(int(sys.argv[1]), Path(name)))))
