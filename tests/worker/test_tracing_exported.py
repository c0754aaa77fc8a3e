"""One trace over three processes as a collector gets it: OTLP, by the SDK's exporter, over a real socket."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.chaos.processes import ServerProcess, WorkerProcess, stopped_at_the_end
from tests.worker import jobs
from treadle import Client, TaskFailed

pytestmark = [pytest.mark.anyio, pytest.mark.inside]

TRACED = """
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

from treadle.cli import main
main()
"""
"""What `opentelemetry-instrument treadle …` does, of which the environment says the rest."""


class Collector(ThreadingHTTPServer):
    """Takes what exporters send to `/v1/traces`, as the OpenTelemetry collector does, and keeps it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Receiver)
        self.spans: list[tuple[str, Span]] = []
        """Each span, and the service that told it."""
        self.url = f"http://127.0.0.1:{self.server_port}"

    def take(self, request: ExportTraceServiceRequest) -> None:
        for of_one in request.resource_spans:
            facts = {fact.key: fact.value.string_value for fact in of_one.resource.attributes}
            for scope in of_one.scope_spans:
                self.spans += [(facts["service.name"], span) for span in scope.spans]

    def by_name(self) -> dict[tuple[str, str], Span]:
        return {(service, span.name.partition(" ")[0]): span for service, span in self.spans}


class Receiver(BaseHTTPRequestHandler):
    """One request of an exporter."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.path == "/v1/traces"
        assert self.headers["Content-Type"] == "application/x-protobuf"
        collector: Any = self.server
        collector.take(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *said: Any) -> None:
        """Say nothing."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as collector:
        serving = threading.Thread(target=collector.serve_forever)
        serving.start()
        yield collector
        collector.shutdown()
        serving.join()


@contextmanager
def exported_to(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send what this process tells there; at the block's end all of it has been sent."""
    provider = TracerProvider(resource=Resource.create({"service.name": "client"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{collector.url}/v1/traces")))
    with monkeypatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", provider)
        yield
    provider.shutdown()


@pytest.mark.one_database
async def test_a_collector_gets_one_trace_of_three_processes_f5(
    collector: Collector, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
    server = ServerProcess(tmp_path, database_url, OTEL_SERVICE_NAME="server", **environment)
    server.run_from(TRACED)
    server.start()
    with stopped_at_the_end(server):
        worker = WorkerProcess(server, "tests.worker.jobs", OTEL_SERVICE_NAME="worker", **environment)
        worker.run_from(TRACED)
        worker.start()
        with stopped_at_the_end(worker), exported_to(collector, monkeypatch):
            async with Client(server.url, server.token) as client:
                handle = await client.submit(jobs.traced_in_a_thread.bind(1))
                await handle.result(timeout=60)
                traced = (await handle.get()).trace_id
                failing = await client.submit(jobs.traced_and_fails.bind())
                with pytest.raises(TaskFailed):
                    await failing.result(timeout=60)
    # Every process has ended, and has sent the last of what it told.
    found = collector.by_name()
    mine = [(service, span) for service, span in collector.spans if span.trace_id.hex() == traced]

    names = {(service, span.name.partition(" ")[0]) for service, span in mine}
    assert names == {
        ("client", "submit"), ("client", "result"), ("server", "wait"), ("worker", "run"), ("worker", "inside"),
    }  # fmt: skip
    spans = {(service, span.name.partition(" ")[0]): span for service, span in mine}
    submit = spans["client", "submit"].span_id
    for child in (("client", "result"), ("server", "wait"), ("worker", "run")):
        assert spans[child].parent_span_id == submit
    assert spans["worker", "inside"].parent_span_id == spans["worker", "run"].span_id
    assert spans["server", "wait"].start_time_unix_nano <= spans["worker", "run"].start_time_unix_nano
    kinds = [spans[name].kind for name in (("client", "submit"), ("worker", "run"))]
    assert kinds == [Span.SPAN_KIND_PRODUCER, Span.SPAN_KIND_CONSUMER]
    failed = [span for service, span in collector.spans if "fails" in span.name and span.name.startswith("run")]
    assert [(span.status.code, [event.name for event in span.events]) for span in failed] == [
        (Status.STATUS_CODE_ERROR, ["exception"])
    ]
    assert found
