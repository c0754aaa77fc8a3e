"""A worker whose threads gevent has made greenlets, as what is written for gunicorn's gevent workers does at import."""

# ruff: noqa: E402 - gevent patches first
from gevent import monkey

monkey.patch_all()

import sys

from treadle import SyncClient, Worker, task


@task
async def double(n: int) -> int:
    return 2 * n


@task
def triple(n: int) -> int:
    return 3 * n


@task(isolation="process")
def quadruple(n: int) -> int:
    return 4 * n


if __name__ == "__main__":
    url, token = sys.argv[1:]
    with SyncClient(url, token) as client:
        handles = [client.submit(one.bind(2)) for one in (double, triple, quadruple)]
        Worker([double, triple, quadruple], url=url, token=token, max_idle=0.1).run()
        print([handle.result(timeout=30) for handle in handles], flush=True)
