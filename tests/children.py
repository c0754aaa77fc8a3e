"""The processes that a test has started, and theirs: each may end at any moment, also while it is asked."""

from collections.abc import Iterable
from contextlib import suppress

import psutil


def children_named(word: str) -> set[int]:
    """Return the numbers of the children that run and have the word in their command line.

    One that was just started may have no command line yet, on a busy machine; one that has ended has none any more.
    """
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if word in child.cmdline():
                found.add(child.pid)
    return found


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; one that nobody has waited for yet doesn't either."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def kill_all(processes: Iterable[psutil.Process]) -> None:
    """Kill those that haven't ended."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()
