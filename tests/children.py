"""The processes that a test's own process has started."""

from contextlib import suppress

import psutil


def children_named(word: str) -> set[int]:
    """Return the numbers of those that run and have the word in their command line.

    One that was just started may have no command line yet, on a busy machine; one that has ended has none any more.
    """
    found = set()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            if word in child.cmdline():
                found.add(child.pid)
    return found
