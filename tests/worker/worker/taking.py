"""A worker whose tasks take its event loop from it; it is told its server, and which of them."""

import asyncio
import logging
import sys

from treadle import SyncClient, Worker, task
from treadle.errors import LoopTaken


@task(max_requeues=0, max_retries=0)
async def stops() -> None:
    asyncio.get_running_loop().stop()
    await asyncio.Event().wait()


def others() -> list[asyncio.Task[object]]:
    return [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]


@task(max_requeues=0, max_retries=0)
async def cancels() -> None:
    for one in others():
        one.cancel()
    await asyncio.Event().wait()


@task(max_requeues=0, max_retries=0)
async def waits() -> None:
    """As programs end by themselves: cancel everything, and wait for it."""
    cancelled = others()
    for one in cancelled:
        one.cancel()
    await asyncio.gather(*cancelled, return_exceptions=True)


url, token, name = sys.argv[1:]
tasks = {one.job.name: one for one in (stops, cancels, waits)}
with SyncClient(url, token) as client:
    client.submit(tasks[name].bind())
logging.basicConfig(format="%(levelname)s %(message)s", stream=sys.stdout)
try:
    Worker(tasks.values(), url=url, token=token).run()
except LoopTaken as error:
    print("RAISED", error, flush=True)
