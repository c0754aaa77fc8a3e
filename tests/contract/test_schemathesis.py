"""Every route of the OpenAPI document is asked what it allows, and what it does not (G9).

Whatever is sent, the answer has a status that the document names, the type and the shape that it promises for it, and
is never the server's own failure. Half of the requests name rows that exist, so that they get further than a 404. Which
requests these are another seed decides each time (`tests.seed`).
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode

from tests.contract.checks import CHECKS
from tests.seed import SEED
from treadle_server.api.openapi import document
from treadle_server.api.routes import ENDPOINTS
from treadle_server.operations.encode import dumps
from treadle_server.testing import Served, serve_in_thread

WAIT = 0.05
"""Seconds that a request may wait for tasks: the document allows twenty."""

FEW, MANY = 4, 300
"""Requests to each route, in the default run and in `nox -s soak`."""

PATIENCE = 60
"""Seconds that an answer may take on a busy machine: schemathesis gives up after ten."""

MOST_HEADER = 8192
"""Bytes that a request's line and headers have at most."""

FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "host", "upgrade", "expect"})

SCHEMA = schemathesis.openapi.from_dict(json.loads(dumps(document(ENDPOINTS))))
OPERATIONS = [found.ok() for found in SCHEMA.get_all_operations()]

once = settings(deadline=None, database=None, max_examples=FEW, suppress_health_check=list(HealthCheck))


@dataclass(frozen=True)
class Site:
    """A server, two who ask it, and what is there to be asked about."""

    served: Served
    session: requests.Session
    tokens: dict[str, str]
    job: dict[str, Any]
    tasks: list[str]

    def named(self, kind: str) -> dict[str, Any]:
        """Return what may stand in a path; of tasks the one of this kind."""
        return {
            "room": "lab",
            "job_name": self.job["full_name"],
            "worker_id": self.job["worker_id"],
            "task_id": self.tasks[_KINDS.index(kind)],
            "run_id": 0,
            "name": "printer",
        }


_KINDS = ("running", "claimed", "pending", "completed")


def _furnish(http: httpx.Client) -> tuple[dict[str, Any], list[str]]:
    """Put in a job with its worker, and a task in each state; return their ids in the order of `_KINDS`."""
    job = http.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add"}).json()
    path, claim = f"/v1/rooms/lab/tasks/{job['full_name']}", {"worker_id": job["worker_id"]}
    bodies = [{"payload": {"n": 1}}, {"payload": {"n": 2}, "target": "printer"}, {"payload": {}}, {"payload": {}}]
    ended, running, claimed, pending = (str(http.post(path, json=body).json()["id"]) for body in bodies)
    for task, reports in ((ended, ("started", "completed")), (running, ("started",)), (claimed, ())):
        assert http.post("/v1/tasks/claim", json=claim).json()["task"]["id"] == task
        for report in reports:
            http.post(f"/v1/tasks/{task}/runs/0/{report}").raise_for_status()
    return job, [running, claimed, pending, ended]


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    options = {"long_poll_max_wait_seconds": WAIT, "sweeper_interval_seconds": 3600}
    with serve_in_thread(**options) as served, requests.Session() as session:
        with httpx.Client(base_url=served.url, headers=served.headers) as http:
            made = http.post("/v1/tokens", json={"name": "alice"}).json()
        tokens = {"root": served.token, "alice": made["token"]}
        with httpx.Client(base_url=served.url, headers={"Authorization": f"Bearer {tokens['alice']}"}) as http:
            job, tasks = _furnish(http)
        yield Site(served, session, tokens, job, tasks)


def _ask(site: Site, case: Any, who: str, kind: str | None) -> None:
    """Send a request, about what exists when a `kind` of task is named, and check the answer."""
    if kind is not None:
        named = site.named(kind)
        case.path_parameters = {name: named.get(name, value) for name, value in case.path_parameters.items()}
        if isinstance(case.body, dict) and "worker_id" in case.body:
            case.body["worker_id"] = named["worker_id"]
    if isinstance(case.body, dict) and case.path == "/v1/tasks/claim":
        case.body["wait"] = WAIT
    # What frames a request is HTTP's: a length that is none is refused before there is a request to answer.
    for name in [name for name in case.headers or {} if name.lower() in FRAMING]:
        del case.headers[name]
    headers = {"Authorization": f"Bearer {site.tokens[who]}"}
    response = case.call(base_url=site.served.url, session=site.session, headers=headers, timeout=PATIENCE)
    if response.status_code == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE and len(case.as_curl_command()) > MOST_HEADER:
        # Of a longer one no request is read, so that no route answers it (docs/http.md).
        return
    case.validate_response(response, checks=CHECKS, headers=headers)


def _all_of(operation: Any) -> Any:
    """Draw requests as the document allows them, and, where it says more than that there is a path, others too."""
    case = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if operation.query or operation.body:
        case = st.one_of(case, operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))
    return given(case=case, who=st.sampled_from(["root", "alice"]), kind=st.sampled_from([*_KINDS, None]))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_g9_every_answer_is_as_the_document_says(site: Site, operation: Any) -> None:
    @seed(SEED)
    @once
    @_all_of(operation)
    def asked(case: Any, who: str, kind: str | None) -> None:
        _ask(site, case, who, kind)

    asked()


@pytest.mark.soak
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.label)
def test_g9_every_answer_is_as_the_document_says_at_length(site: Site, operation: Any) -> None:
    @seed(SEED)
    @settings(once, max_examples=MANY)
    @_all_of(operation)
    def asked(case: Any, who: str, kind: str | None) -> None:
        _ask(site, case, who, kind)

    asked()
