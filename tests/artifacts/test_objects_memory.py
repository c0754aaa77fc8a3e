"""A large artifact passes through the server in constant memory (C10)."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

MEGABYTE = 1_000_000
ROOM = 16 * MEGABYTE
"""What sockets, threads and parts on their way may take beyond what a small artifact needs, server and client both."""


@pytest.mark.parametrize("size", [20, pytest.param(200, marks=pytest.mark.soak)])
def test_c10_an_artifact_of_many_megabytes_passes_in_constant_memory(size: int) -> None:
    command = [sys.executable, "-m", "tests.artifacts.heavy", str(size * MEGABYTE)]

    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)

    figures = json.loads(done.stdout)
    assert figures["grown"] < min(ROOM, size * MEGABYTE), figures
