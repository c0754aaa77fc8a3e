"""What becomes of a copy of this process that a task's code has forked, and that comes back from it."""

import os

from treadle.forks import process_number


def end_copy(ours: int) -> None:
    """End this process, silently, unless its number is `ours`: the one that called the code goes on with the run.

    A copy has all connections of its original. It would tell how the run ended a second time, which the next run of the
    same process was taken for, and read what is meant for the other.
    """
    if process_number() != ours:
        os._exit(0)
