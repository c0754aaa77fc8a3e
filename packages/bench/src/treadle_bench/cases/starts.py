"""How long it takes until anything starts."""

import subprocess
import sys
import time
from collections.abc import Iterator

from treadle_bench.case import Case
from treadle_bench.children import without_treadle
from treadle_bench.figures import NONE, Figure, Sample
from treadle_bench.harness import open_harness
from treadle_bench.testbed import Testbed

_COMMANDS = {
    "import treadle": ("-c", "import treadle"),
    "import its Client, Worker and task": ("-c", "from treadle import Client, Worker, task"),
    "treadle --help": ("-c", "from treadle.cli import main; main()", "--help"),
}


def _server_start(testbed: Testbed) -> Iterator[Sample]:
    with testbed.home() as home:
        for figure in ("treadle server to ready, new database", "treadle server to ready, again"):
            with open_harness(home) as harness:
                yield Sample(figure, harness.start_seconds)


def _start(testbed: Testbed) -> Iterator[Sample]:
    for figure, arguments in _COMMANDS.items():
        began = time.monotonic()
        subprocess.run([sys.executable, "-P", *arguments], env=without_treadle(), stdout=subprocess.DEVNULL, check=True)  # noqa: S603 - our own command
        yield Sample(figure, time.monotonic() - began)


STARTS = (
    Case(
        name="start-server",
        summary="from `treadle server` to a good answer of /readyz",
        figures=(
            Figure(name="treadle server to ready, new database", unit="s", is_rate=False),
            Figure(name="treadle server to ready, again", unit="s", is_rate=False),
        ),
        measure=_server_start,
    ),
    Case(
        name="start",
        summary="a whole Python process that imports the package, or prints the help",
        figures=(
            Figure(name="import treadle", unit="s", is_rate=False),
            Figure(name="import its Client, Worker and task", unit="s", is_rate=False),
            Figure(name="treadle --help", unit="s", is_rate=False),
        ),
        measure=_start,
        databases=(NONE,),
    ),
)
