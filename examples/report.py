"""A report over many pages: fetch them side by side, measure them ten at a time, and combine the results in one task.

Run `treadle worker examples.report --concurrency 50` and `python -m examples.report https://example.org/{} 1000`;
`{}` is replaced by the numbers from 0 on. `treadle flows` shows the progress.
"""

import asyncio
import sys
from itertools import chain

import httpx

from treadle import Client, Flow, task

TOGETHER = 10
"""How many pages one task measures."""


@task(max_retries=3, timeout=30)
async def fetch(url: str) -> str:
    """Fetch a page; one that does not answer is retried by itself."""
    async with httpx.AsyncClient(follow_redirects=True) as http:
        return (await http.get(url)).raise_for_status().text


@task
def measure(pages: list[str]) -> list[int]:
    """Count the words of some pages."""
    return [len(page.split()) for page in pages]


@task
def report(counts: list[list[int]]) -> dict[str, int]:
    """Return how many pages there are, and how many words the shortest and the longest one have."""
    words = sorted(chain.from_iterable(counts))
    return {"pages": len(words), "least": words[0], "most": words[-1]}


async def main(pattern: str, pages: int = 1000) -> dict[str, int]:
    """Submit the flow, print its progress, and return the report."""
    flow = Flow("report")
    fetched = [flow.add(fetch, url=pattern.format(number)) for number in range(pages)]
    measured = [flow.add(measure, pages=fetched[n : n + TOGETHER]) for n in range(0, pages, TOGETHER)]
    total = flow.add(report, counts=measured)
    async with Client():
        await flow.submit()
        ended = 0
        async for _ in flow.completed():
            ended += 1
            if ended % 100 == 0:
                print(f"{ended} of {len(fetched) + len(measured) + 1} tasks have ended")
        return await flow.result(total)


if __name__ == "__main__":
    print(asyncio.run(main(sys.argv[1], *map(int, sys.argv[2:3]))))
