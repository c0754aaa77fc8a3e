"""This process's id, cached; it is updated after a fork.

`os.getpid()` was called twice for each task that a worker runs, and for each submit at every step that needs an open
client, at 1 to 2 microseconds each on a virtual machine, where a no-op costs its worker 26.
"""

import os

_number = os.getpid()


def process_number() -> int:
    """Return `os.getpid()`, as it was when this process began."""
    return _number


def _begin() -> None:
    global _number  # noqa: PLW0603 - it is per process
    _number = os.getpid()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_begin)
