"""A line at the end of a file that several processes write: it is whole, and outlives the one that wrote it."""

import os


def append(path: str | os.PathLike[str], line: str) -> None:
    """Append the line in one call, so that no two writers mix theirs."""
    descriptor = os.open(path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)
