"""Runs a `treadle` command that ends with whoever started it: `python -m treadle_bench.die_with_parent FD COMMAND …`.

FD is the reading end of a pipe whose writing end the starter alone holds. However the starter goes, by `kill -9` too,
the pipe ends, and so does this process with all of its group. The starter needs nothing from the platform but pipes.
"""

import os
import signal
import sys
import threading
import time

GRACE_SECONDS = 3.0
"""How long the command may take to end by itself once the pipe has ended."""


def main() -> None:
    """Watch the pipe in a thread, and run the command in this one."""
    pipe, *arguments = sys.argv[1:]
    die_with_parent(int(pipe))

    from treadle.cli import main as treadle

    sys.argv[:] = ["treadle", *arguments]
    treadle()


def die_with_parent(pipe: int) -> None:
    """End this process, and its group when it leads one, once the pipe has ended; watched by a thread."""
    threading.Thread(target=_watch, args=(pipe,), daemon=True).start()


def _watch(pipe: int) -> None:
    while os.read(pipe, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    # A leader takes its group along: a worker's child processes. Others share their group with the starter.
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main()
