"""Tasks that upload, each as its kind of code does."""

from collections.abc import AsyncIterator
from pathlib import Path

from treadle import Context, task


@task
async def from_path(ctx: Context, path: Path) -> str:
    return (await ctx.upload(path)).name


@task
async def from_stream(ctx: Context, pieces: int) -> int:
    async def stream() -> AsyncIterator[bytes]:
        for number in range(pieces):
            yield b"%d\n" % number

    return (await ctx.upload(stream(), name="lines.txt")).size


@task
def in_thread(ctx: Context, text: str) -> int:
    return ctx.upload(text.encode(), name="said.txt", content_type="text/plain; charset=utf-8").item.size


@task(isolation="process")
def in_process(ctx: Context, path: Path, text: str) -> list[str]:
    return [ctx.upload(path, name="deep/file.bin").item.name, ctx.upload(text.encode(), name="said.txt").item.name]


@task(isolation="process")
async def async_in_process(ctx: Context) -> int:
    async def stream() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"

    return (await ctx.upload(stream(), name="both")).size


@task(isolation="process", max_retries=0)
def twice(ctx: Context) -> None:
    ctx.upload(b"one", name="same")
    ctx.upload(b"two", name="same")
