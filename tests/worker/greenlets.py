"""A program whose threads gevent has made greenlets, as gunicorn's gevent workers do, and which uses one client."""

# ruff: noqa: E402 - gevent patches first
from gevent import monkey

monkey.patch_all()

import asyncio
import sys
from concurrent.futures import thread

import gevent

from treadle import SyncClient, task


@task
def double(n: int) -> int:
    return 2 * n


async def nothing() -> str:
    return "a loop of its own"


url, token = sys.argv[1:]
with SyncClient(url, token) as client:
    # What Django looks at before each query, and asyncio before it begins another loop.
    print(asyncio._get_running_loop(), asyncio.run(nothing()), flush=True)

    greenlets = [gevent.spawn(lambda n=n: client.submit(double.bind(n)).status()) for n in range(20)]
    gevent.joinall(greenlets, raise_error=True)
    print(sorted({greenlet.value.value for greenlet in greenlets}), flush=True)

    waiting = gevent.spawn(client.submit(double.bind(20)).result)
    other = gevent.spawn(client.whoami)
    other.join()
    print(waiting.ready(), other.successful(), flush=True)
    waiting.kill()
    print(waiting.ready(), client.whoami().superuser, flush=True)
with SyncClient(url, token) as client:
    print(len(client.list().items), flush=True)
    # Which the process waits for when it ends.
    print(len(thread._threads_queues), "threads of Python's pools", flush=True)
