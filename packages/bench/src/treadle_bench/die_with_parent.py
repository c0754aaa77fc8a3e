"""Runs a `treadle` command that ends with its starter: `python -m treadle_bench.die_with_parent FD COMMAND …`.

FD is the read end of a pipe whose write end only the starter holds. However the starter ends, even by `kill -9`, the
pipe closes, and this process ends with its whole group. No platform feature other than pipes is needed.
"""

import os
import signal
import sys
import threading
import time

GRACE_SECONDS = 3.0
"""How long the command may take to end by itself once the pipe has closed."""


def main() -> None:
    """Watch the pipe in a thread, and run the command in this one."""
    pipe, *arguments = sys.argv[1:]
    die_with_parent(int(pipe))

    from treadle.cli import main as treadle

    sys.argv[:] = ["treadle", *arguments]
    treadle()


def die_with_parent(pipe: int) -> None:
    """End this process, and its group if it leads one, once the pipe has closed. Returns at once; a thread watches."""
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()


def _watch(pipe: int) -> None:
    while os.read(pipe, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    # A leader takes its group along, such as a worker's child processes. Others share their group with the starter.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
