"""Pictures that are drawn in processes on all cores, and kept with their tasks as files.

Run `treadle worker examples.pictures --concurrency 4` and `python -m examples.pictures`.
"""

import asyncio
import struct
import zlib

from treadle import Client, Context, task

DEEPEST = 255


@task(isolation="process", timeout=120)
def mandelbrot(ctx: Context, zoom: float = 1.0, width: int = 160, height: int = 120) -> str:
    """Draw a part of the Mandelbrot set, and return the name of the uploaded file."""
    step = 3 / width / zoom
    rows = []
    for y in range(height):
        rows.append(bytes(depth(-0.75 + (x - width / 2) * step, (y - height / 2) * step) for x in range(width)))
        ctx.progress((y + 1) / height)
    name = f"mandelbrot-{zoom:g}.png"
    ctx.upload(png(rows), name=name)
    return name


def depth(x: float, y: float) -> int:
    """Return after how many steps a point leaves the circle, 255 at most."""
    z, c = 0j, complex(x, y)
    for steps in range(DEEPEST):
        if abs(z) > 2:
            return steps
        z = z * z + c
    return DEEPEST


def png(rows: list[bytes]) -> bytes:
    """Return rows of grey pixels as a PNG file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    pixels = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


async def main() -> None:
    async with Client() as client:
        for handle in await client.submit_many([mandelbrot.bind(zoom=2.0**power) for power in range(8)]):
            print(await handle.download(await handle.result(timeout=300), "."))


if __name__ == "__main__":
    asyncio.run(main())
