"""A program whose main thread ends, and whose client then finds its server, in another thread and at the exit."""

import atexit
import sys
import threading

from treadle import SyncClient, task


@task
def double(n: int) -> int:
    return 2 * n


def submit(where: str) -> None:
    with SyncClient(*sys.argv[1:]):
        print(where, double.submit_sync(1).status(), flush=True)


def work() -> None:
    threading.main_thread().join()
    submit("thread")


atexit.register(submit, "exit")
threading.Thread(target=work).start()
