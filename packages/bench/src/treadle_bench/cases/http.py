"""Plain HTTP: submits with one task per request, and a worker that claims and reports in bulk."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle_bench.case import Case
from treadle_bench.cases.drains import preload
from treadle_bench.figures import BenchFailed, Figure, Sample
from treadle_bench.harness import Harness
from treadle_bench.loads.tasks import make_job
from treadle_bench.testbed import Testbed

CONNECTIONS = 50
WRK_SECONDS = 10
_REQUESTS = 20_000

_SCRIPT = """
wrk.method = "POST"
wrk.body = '{{"payload":{{"n":1}}}}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
"""


def _http(testbed: Testbed) -> Iterator[Sample]:
    with testbed.server() as harness:
        yield Sample("submit, 50 connections", _submit_rate(testbed, harness))
    with testbed.server() as harness:
        count = testbed.count(_REQUESTS, least=100)
        preload(harness, count)
        seconds = harness.run("claim-http", count=count, connections=4)["seconds"]
        if harness.counts().get("completed", 0) != count:
            raise BenchFailed("the worker over HTTP has reported more completions than the store has")
        yield Sample("worker with bulk claims and reports", count / seconds)


def _submit_rate(testbed: Testbed, harness: Harness) -> float:
    """Return submits per second, by wrk if that is installed, otherwise by our own client in another process."""
    wrk = shutil.which("wrk")
    count = testbed.count(_REQUESTS) if wrk is None else 1
    seconds: float = harness.run("submit-http", count=count, connections=min(count, CONNECTIONS))["seconds"]
    if wrk is None:
        return count / seconds
    return _run_wrk(wrk, harness, max(1, round(WRK_SECONDS * min(1.0, testbed.scale))))


def _run_wrk(wrk: str, harness: Harness, seconds: int) -> float:
    url = f"{harness.url}/v1/rooms/@global/tasks/{make_job(0).full_name}"
    with TemporaryDirectory() as directory:
        script = Path(directory, "submit.lua")
        script.write_text(_SCRIPT.format(token=harness.token))
        command = [wrk, f"-c{CONNECTIONS}", "-t2", f"-d{seconds}s", "-s", str(script), url]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - found by which
    found = re.search(r"Requests/sec:\s+([0-9.]+)", output)
    if found is None or "Non-2xx" in output or "Socket errors" in output:
        raise BenchFailed(f"the server did not answer wrk as it should:\n{output}")
    return float(found[1])


PLAIN_HTTP = Case(
    name="http",
    summary="plain HTTP: submits one in a request, by wrk where it is installed; a worker that claims 100 at once",
    figures=(
        Figure(name="submit, 50 connections", unit="tasks/s"),
        Figure(name="worker with bulk claims and reports", unit="tasks/s"),
    ),
    measure=_http,
)
