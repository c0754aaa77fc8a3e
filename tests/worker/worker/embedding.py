"""A program whose event loop ends with a worker in it, and code under way; it is told its server, and how.

`left`: the worker is not thought of; `cancelled`: it is cancelled, and not waited for.
"""

import asyncio
import logging
import sys

from treadle import Client, Worker, task

BEGUN = asyncio.Event()


@task
async def waits() -> None:
    BEGUN.set()
    await asyncio.Event().wait()


async def main(url: str, token: str, how: str) -> None:
    async with Client(url, token):
        worker = asyncio.create_task(Worker([waits], url=url, token=token).run_async())
        await waits.submit()
        await BEGUN.wait()
        if how == "cancelled":
            worker.cancel()


logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
asyncio.run(main(*sys.argv[1:]))
