"""One trace of a task, through the client, the server and a worker's process."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import baggage, context, propagate, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tests.worker import jobs
from tests.worker.vaults import SECRET, whisper
from treadle import Client, TaskFailed
from treadle.encryption import FernetCodec, new_key
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio

WORKER = """
import sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

out = open(sys.argv[1], "a", buffering=1)
provider = TracerProvider()
exporter = ConsoleSpanExporter(out=out, formatter=lambda span: span.to_json(None) + "\\n")
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

from tests.worker import jobs
from treadle import Worker

Worker([jobs.traced, jobs.traced_in_a_thread, jobs.traced_and_fails], url=sys.argv[2], token=sys.argv[3]).run()
"""


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What this process, the client and the server, tells."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


@pytest.fixture
def told_by_worker(server: Served, tmp_path: Path) -> Iterator[Path]:
    """A worker in a process of its own, and the file in which it writes its spans."""
    told = tmp_path / "spans"
    worker = subprocess.Popen([sys.executable, "-c", WORKER, str(told), server.url, server.token])
    yield told
    worker.terminate()
    worker.wait(30)


def of_worker(told: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told.read_text().splitlines()]


@pytest.mark.inside  # the server's spans are told in the test's process
@pytest.mark.parametrize("function", [jobs.traced, jobs.traced_in_a_thread], ids=["async", "thread"])
async def test_it_is_whole_from_the_submit_through_wait_and_run_to_the_result(
    client: Client, spans: InMemorySpanExporter, told_by_worker: Path, function: Any
) -> None:
    with trace.get_tracer("the program's own").start_as_current_span("request") as request:
        handle = await function.submit(1)
        assert await handle.result(timeout=60) == f"{request.get_span_context().trace_id:032x}"

    item = await handle.get()
    name = function.full_name
    here = {span.name: span for span in spans.get_finished_spans()}
    there = {span["name"]: span for span in of_worker(told_by_worker)}
    assert here.keys() == {"request", f"submit {name}", f"wait {name}", f"result {name}"}
    assert there.keys() == {f"run {name}", "inside"}
    assert {f"{span.context.trace_id:032x}" for span in here.values() if span.context} == {item.trace_id}
    assert {span["context"]["trace_id"] for span in there.values()} == {f"0x{item.trace_id}"}
    submit = here[f"submit {name}"].context
    assert submit is not None
    assert there[f"run {name}"]["parent_id"] == f"0x{submit.span_id:016x}"
    assert there["inside"]["parent_id"] == there[f"run {name}"]["context"]["span_id"]
    for kind in ("wait", "result"):
        assert here[f"{kind} {name}"].parent == submit or here[f"{kind} {name}"].parent.span_id == submit.span_id
    assert there[f"run {name}"]["attributes"]["treadle.outcome"] == "completed"
    assert there[f"run {name}"]["attributes"]["messaging.message.id"] == handle.id


@pytest.mark.parametrize("way", ["alone", "many", "http"])
async def test_a_submit_that_registers_its_job_first_is_told_in_one_span_that_did_not_fail_f5(
    server: Served, client: Client, spans: InMemorySpanExporter, way: str
) -> None:
    """It is refused, registers the job, and is sent again in the trace that it had."""

    async def token() -> str:
        return server.token

    async with Client(server.url, token) if way == "http" else client as asking:
        bound = jobs.traced.bind(1)
        handle = (await asking.submit_many([bound]))[0] if way == "many" else await asking.submit(bound)
        item = await handle.get()

    [submit] = [span for span in spans.get_finished_spans() if span.name.startswith("submit ")]
    assert submit.context is not None
    assert submit.status.is_ok
    assert submit.events == ()
    assert item.trace_id == f"{submit.context.trace_id:032x}"


@contextmanager
def asked(state: list[tuple[str, str]], flags: int = 1) -> Iterator[None]:
    """What a request has that comes from elsewhere: a parent with this state, and baggage."""
    parent = SpanContext(0xABC, 0xDEF, is_remote=True, trace_flags=TraceFlags(flags), trace_state=TraceState(state))
    around = baggage.set_baggage("tenant", "Ännchen & Co", trace.set_span_in_context(NonRecordingSpan(parent)))
    token = context.attach(around)
    yield
    context.detach(token)


@pytest.mark.inside  # the worker has loaded OpenTelemetry
@pytest.mark.parametrize("sampled", [1, 0])
@pytest.mark.parametrize("function", [jobs.carries, jobs.carries_into_a_thread, jobs.carries_into_a_process])
async def test_a_task_has_the_baggage_and_the_state_of_its_submit(
    client: Client, spans: InMemorySpanExporter, working: Any, function: Any, sampled: int
) -> None:
    async with working(function):
        with asked([("vendor", "1")], sampled):
            handle = await client.submit(function.bind(1))
        result = await handle.result(timeout=60)

    assert result == {"tenant": "Ännchen & Co", "state": "vendor=1"}
    assert bool([span for span in spans.get_finished_spans() if span.name.startswith("run ")]) is bool(sampled)


async def test_of_a_state_that_is_too_long_the_first_members_go_with_the_task(client: Client, working: Any) -> None:
    """A caller's headers decide how long it is: no submit is refused for it."""
    async with working(jobs.carries):
        with asked([(f"v{n}", "x" * 200) for n in range(5)]):
            handle = await client.submit(jobs.carries.bind(1))
        result = await handle.result(timeout=60)

    assert result["state"] == f"v0={'x' * 200},v1={'x' * 200}"


async def test_baggage_stays_here_where_the_propagators_leave_it_out(
    client: Client, working: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propagate, "_HTTP_TEXT_FORMAT", TraceContextTextMapPropagator())
    async with working(jobs.carries):
        with asked([]):
            handle = await client.submit(jobs.carries.bind(1))
        result = await handle.result(timeout=60)

    assert result == {"state": ""}


async def test_tasks_are_submitted_though_the_propagators_name_one_that_is_not_installed(server: Served) -> None:
    script = f"""
import asyncio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
from tests.worker import jobs
from treadle import Client

async def main():
    async with Client({server.url!r}, {server.token!r}) as client:
        for n in range(2):
            print(bool((await (await client.submit(jobs.small.bind(n))).get()).trace_id))

asyncio.run(main())
"""
    of_it = {**os.environ, "OTEL_PROPAGATORS": "tracecontext,nowhere"}

    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], env=of_it, capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "True\nTrue\n", done.stderr
    assert done.stderr.count("OTEL_PROPAGATORS can't be used (Propagator nowhere not found.") == 1


async def test_a_run_that_fails_tells_its_error(
    client: Client, spans: InMemorySpanExporter, told_by_worker: Path
) -> None:
    handle = await jobs.traced_and_fails.submit()
    with pytest.raises(TaskFailed):
        await handle.result(timeout=60)

    [run] = of_worker(told_by_worker)
    assert run["status"] == {"status_code": "ERROR", "description": "LookupError: nothing there"}
    [event] = run["events"]
    assert event["attributes"]["exception.type"] == "LookupError"
    assert "Traceback" in event["attributes"]["exception.stacktrace"]


@pytest.mark.inside  # the worker's spans are told in the test's process
async def test_of_an_encrypted_task_a_span_tells_the_class_of_its_error_alone(
    server: Served, spans: InMemorySpanExporter, working: Any
) -> None:
    codec = FernetCodec(new_key())
    async with Client(server.url, server.token, codec=codec) as keyed, working(whisper, codec=codec):
        await (await keyed.submit(whisper.bind(word=SECRET, fails=True))).wait(60)

    told = [str(span.to_json()) for span in spans.get_finished_spans()]
    [run] = [span for span in spans.get_finished_spans() if span.name.startswith("run ")]
    assert run.status.description == "KeyError"
    assert [dict(event.attributes or {}) for event in run.events] == [{"exception.type": "KeyError"}]
    assert SECRET not in "".join(told)


async def test_the_same_submit_in_another_trace_is_the_same_task(client: Client, server: Served) -> None:
    """G6."""
    item = {"id": "01a1fca0-0000-7000-8000-00000000aaaa", "job": "@global:tasks:small", "payload": {"n": 1}}
    await client.register(jobs.small)
    answers = []
    for number in "12":
        parent = f"00-{number * 32}-{number * 16}-01"
        sent = {"room": "@global", "tasks": [{**item, "traceparent": parent, "tracestate": "a=b"}]}
        answers.append((await client.call("submit", sent))["tasks"][0])

    assert [one["trace_id"] for one in answers] == ["1" * 32] * 2
    odd = {"room": "@global", "tasks": [{**item, "traceparent": "of no form"}]}
    with pytest.raises(Exception, match="traceparent"):
        await client.call("submit", odd)


@pytest.mark.parametrize("parent", [f"00-{'0' * 32}-{'1' * 16}-01", f"00-{'1' * 32}-{'0' * 16}-01"])
async def test_a_trace_or_a_span_of_zeros_alone_is_none(client: Client, parent: str) -> None:
    await client.register(jobs.small)
    sent = {"id": "01a1fca0-0000-7000-8000-00000000aaab", "job": "@global:tasks:small", "payload": {"n": 1}}

    of_it = {"traceparent": parent, "tracestate": "a=b", "baggage": "c=d"}
    [item] = (await client.call("submit", {"room": "@global", "tasks": [{**sent, **of_it}]}))["tasks"]

    assert item["trace_id"] is None


async def test_a_program_that_does_not_trace_loads_nothing(server: Served) -> None:
    script = f"""
import asyncio, sys
from tests.worker import jobs
from treadle import Client, Worker

async def main():
    worker = Worker([jobs.small], url={server.url!r}, token={server.token!r})
    running = asyncio.ensure_future(worker.run_async())
    async with Client({server.url!r}, {server.token!r}) as client:
        print(await (await jobs.small.submit(1)).result(timeout=60))
    worker.stop()
    await running
    print([name for name in sys.modules if name.startswith("opentelemetry")])

asyncio.run(main())
"""

    done = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout == "2\n[]\n"
