"""Nets: what is run against the packages, with a fault in them or without, and what it says."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutants.faults import ROOT
from tests.mutants.overlay import Overlay

LIMIT = 60.0
"""Seconds in which a net must find its fault."""

NAMED: dict[str, Sequence[str]] = {}
"""What pytest is given for a net that is more than one test."""

_PLUGINS = ("anyio.pytest_plugin", "pytest_timeout", "_hypothesis_pytestplugin")
"""Those of pytest that nets need; to load all that are installed takes longer than most of them."""

_PYTEST = ("-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-rfE", "-m", "", "--hypothesis-seed=0")
"""`-m ""`: a net may be a test that the default run leaves out. The seed: what is found today is found tomorrow."""

_OF_ONE_TEST = 30
"""Seconds after which a test that hangs fails by itself, and so cleans up behind it."""

_NOT_RUN = frozenset({2, 3, 4, 5})
"""Pytest's codes for: interrupted, as by a module that can't be imported; a defect of its own; misused; no tests."""

_FOUND = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a net said."""

    is_red: bool
    """Whether it says that something is wrong."""
    by: str
    """The test that failed, or what else happened."""
    seconds: float
    is_broken: bool = False
    """Whether it could not be run at all."""
    said: str = ""


def cast(nets: Sequence[str], overlay: Overlay, *, limit: float = LIMIT) -> Verdict:
    """Run nets against the packages of the overlay, up to `limit` seconds."""
    chosen = [part for net in nets for part in NAMED.get(net, (net,))]
    plugins = [part for name in _PLUGINS for part in ("-p", name)]
    command = [sys.executable, *_PYTEST, *plugins, f"--timeout={min(_OF_ONE_TEST, limit):g}", *chosen]
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=overlay.environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        # With all that it has started.
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
        return Verdict(is_red=True, by=f"no end in {limit:g} s", seconds=time.monotonic() - began, said=said)
    seconds = time.monotonic() - began
    code = process.returncode
    if code in _NOT_RUN:
        return Verdict(is_red=False, by="", seconds=seconds, is_broken=True, said=said)
    # A worker in the test's process may have ended it, as it does before a target has two runs.
    by = found[1] if (found := _FOUND.search(said)) else f"{chosen[0]} ended by {code}" if code else ""
    return Verdict(is_red=code != 0, by=by, seconds=seconds, said=said)
