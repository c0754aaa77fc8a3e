"""A pipeline: a long task that resumes where it was, and submits the next one.

Run `treadle worker examples.pipeline` and `python -m examples.pipeline README.md LICENSE`.
"""

import asyncio
import sys
from collections import Counter
from pathlib import Path
from uuid import UUID, uuid5

from treadle import Client, Context, Options, task


@task(max_retries=3, timeout=600)
async def count_words(ctx: Context, paths: list[Path]) -> str:
    """Count the words of files, one file after the other; return the id of the task that adds them up.

    After a retry, a lost worker or a pause, files that were already counted are not read again.
    """
    counted: dict[str, dict[str, int]] = ctx.checkpoint or {}
    for path in paths:
        if str(path) not in counted:
            counted[str(path)] = Counter(path.read_text().lower().split())
            await ctx.save(counted)
        ctx.progress(len(counted) / len(paths), f"{path.name} is counted")
    # An id of our own: if this run is lost here, the next run submits the same task, not a second one.
    total = await add_up.submit(list(counted.values()), options=Options(id=next_id(ctx)))
    return total.id


@task
def add_up(counts: list[dict[str, int]]) -> list[tuple[str, int]]:
    """Return the ten most frequent words of all files."""
    return sum(map(Counter, counts), Counter()).most_common(10)


def next_id(ctx: Context) -> str:
    """Return the same id in each run of a task."""
    return str(uuid5(UUID(ctx.task.id), "add_up"))


async def main(paths: list[Path]) -> None:
    async with Client() as client:
        first = await count_words.submit(paths)
        for word, times in await client.handle(await first.result(timeout=60)).result(timeout=60):
            print(f"{times:6} {word}")


if __name__ == "__main__":
    asyncio.run(main([Path(name).resolve() for name in sys.argv[1:]]))
