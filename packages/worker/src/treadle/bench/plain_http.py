"""Plain HTTP: submits one in a request, and a worker that claims and reports in bulk."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from treadle.bench.drains import preload
from treadle.bench.figures import BenchFailed, Case, Figure, Sample
from treadle.bench.stage import Run, Stage
from treadle.bench.tasks import make_job

CONNECTIONS = 50
WRK_SECONDS = 10
_REQUESTS = 20_000

_SCRIPT = """
wrk.method = "POST"
wrk.body = '{{"payload":{{"n":1}}}}'
wrk.headers["Content-Type"] = "application/json"
wrk.headers["Authorization"] = "Bearer {token}"
"""


def _http(run: Run) -> Iterator[Sample]:
    with run.server() as stage:
        yield Sample("submit, 50 connections", _submit_rate(run, stage))
    with run.server() as stage:
        count = run.count(_REQUESTS, least=100)
        preload(stage, count)
        seconds = stage.play("claim-http", count=count, connections=4)["seconds"]
        if stage.counts().get("completed", 0) != count:
            raise BenchFailed("the worker over HTTP has reported more completions than the store has")
        yield Sample("worker with bulk claims and reports", count / seconds)


def _submit_rate(run: Run, stage: Stage) -> float:
    """Return submits a second by wrk, where that is installed, else by a client of our own in another process."""
    wrk = shutil.which("wrk")
    count = run.count(_REQUESTS) if wrk is None else 1
    seconds: float = stage.play("submit-http", count=count, connections=min(count, CONNECTIONS))["seconds"]
    if wrk is None:
        return count / seconds
    return _run_wrk(wrk, stage, max(1, round(WRK_SECONDS * min(1.0, run.scale))))


def _run_wrk(wrk: str, stage: Stage, seconds: int) -> float:
    url = f"{stage.url}/v1/rooms/@global/tasks/{make_job(0).full_name}"
    with TemporaryDirectory() as directory:
        script = Path(directory, "submit.lua")
        script.write_text(_SCRIPT.format(token=stage.token))
        command = [wrk, f"-c{CONNECTIONS}", "-t2", f"-d{seconds}s", "-s", str(script), url]
        output = subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - found by which
    found = re.search(r"Requests/sec:\s+([0-9.]+)", output)
    if found is None or "Non-2xx" in output or "Socket errors" in output:
        raise BenchFailed(f"wrk was not answered as it should be:\n{output}")
    return float(found[1])


PLAIN_HTTP = (
    Case(
        name="http",
        summary="plain HTTP: submits one in a request, by wrk where it is installed; a worker that claims 100 at once",
        figures=(
            Figure(name="submit, 50 connections", unit="tasks/s"),
            Figure(name="worker with bulk claims and reports", unit="tasks/s"),
        ),
        measure=_http,
    ),
)
