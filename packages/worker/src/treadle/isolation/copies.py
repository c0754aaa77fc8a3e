"""What happens to a copy of this process that a task's code has forked, and that returns from the code."""

import os

from treadle.forks import process_number


def end_copy(ours: int) -> None:
    """Exit silently if this process is not `ours`, the one that called the code, which goes on with the run.

    A copy has all connections of the original. It would report the end of the run a second time, which would be taken
    for the end of the process's next run, and would read what is meant for the original.
    """
    if process_number() != ours:
        os._exit(0)
