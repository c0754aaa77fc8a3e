"""A polite crawler: many hosts at once, each asked at most once a second, however many workers there are.

Run `treadle worker examples.crawler --concurrency 100`, as many as you like, and then
`python -m examples.crawler https://example.org https://example.com`; `treadle limits` shows what waits.
"""

import asyncio
import re
import sys
from urllib.parse import urljoin, urlsplit

import httpx

from treadle import Client, Context, Limit, Options, task

EACH_HOST = Limit("hosts", key="/host", rate=(1, 1))
"""One request a second for each host; tasks that wait for one host do not delay those for others."""


@task(limits=[EACH_HOST], timeout=30, max_retries=2)
async def crawl(ctx: Context, host: str, path: str = "/", depth: int = 1) -> int:
    """Fetch a page, submit the pages on the same host that it links to, and return how many there are."""
    url = urljoin(host, path)
    async with httpx.AsyncClient(follow_redirects=True) as http:
        page = (await http.get(url)).raise_for_status().text
    found = {urljoin(url, link) for link in re.findall(r'href="([^"#]+)"', page)}
    paths = sorted(urlsplit(link).path for link in found if link.startswith(host)) if depth else []
    for below in paths:
        # The unique key: a page that waits or runs is not submitted twice.
        await crawl.submit(host, below, depth - 1, options=Options(unique_key=host + below))
    ctx.log(f"{url} leads to {len(paths)} pages")
    return len(paths)


async def main(hosts: list[str]) -> None:
    """Submit the first page of each host."""
    async with Client() as client:
        await client.submit_many([crawl.bind(host) for host in hosts])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
