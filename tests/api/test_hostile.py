"""G9: bad input of any kind gets a 4xx problem that says what to mend, never a 500, and changes nothing."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.api.rooms import problem
from tests.authorization.test_authorization import filled
from tests.conftest import _database_of as database_of
from tests.conftest import _execute as execute
from treadle.wire.values import MOST_DIGITS, MOST_LEVELS, fault
from treadle_server.api.endpoint import Endpoint
from treadle_server.api.routes import ENDPOINTS
from treadle_server.testing import Served, serve_in_thread

WITH_BODY = [e for e in ENDPOINTS if e.method in {"POST", "PUT", "PATCH"} and not e.permission.is_open]

_NESTED = "[" * (MOST_LEVELS + 1) + "]" * (MOST_LEVELS + 1)

BROKEN = {
    "not json": b"{nope",
    "cut short": b'{"a": ',
    "not utf-8": b'{"a": "\xff\xfe"}',
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "a list": b"[]",
    "a number": b"7",
    "null": b"null",
    "a text": b'"x"',
    "nan": b'{"a": NaN}',
    "infinity": b'{"a": -Infinity}',
    "beyond a double": b'{"a": 1e999}',
    "a huge integer": b'{"a": ' + b"9" * 5000 + b"}",
    "a nul": b'{"a": "x\\u0000y"}',
    "a nul in a key": b'{"x\\u0000y": 1}',
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "deep": f'{{"a": {_NESTED}}}'.encode(),
    "very deep": b'{"a":' * 100_000,
    "an unknown field": b'{"no_such_field": 1}',
    "two values": b"{} {}",
}


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    url = None
    if request.param == "postgres":
        url = database_of(request.getfixturevalue("postgres_url"), "treadle_hostile")
        asyncio.run(execute(request.getfixturevalue("postgres_url"), "DROP DATABASE IF EXISTS treadle_hostile"))
        asyncio.run(execute(request.getfixturevalue("postgres_url"), "CREATE DATABASE treadle_hostile"))
    with serve_in_thread(url, data_dir=tmp_path_factory.mktemp("hostile"), max_body_bytes=1_000_000) as served:
        yield served


@pytest.fixture(scope="module")
def client(server: Served) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, headers=server.headers, timeout=30) as client:
        registered = client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "retain": True})
        assert registered.status_code == 201
        yield client


def state(client: httpx.Client) -> list[Any]:
    """Return everything that a refused request must leave as it was."""
    paths = ("/v1/tasks", "/v1/rooms/lab/jobs", "/v1/tokens")
    found = [client.get(path).json() for path in paths]
    return [*found, client.get("/v1/workers").json()["total"]]


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_body_is_refused_by_every_route(client: httpx.Client, kind: str):
    """G9."""
    before = state(client)

    for endpoint in WITH_BODY:
        if endpoint.body is None:
            continue
        answer = client.request(endpoint.method, filled(endpoint.path), content=BROKEN[kind])
        assert 400 <= answer.status_code < 500, (endpoint.path, answer.text)
        assert problem(answer) == "validation-error", endpoint.path
    assert state(client) == before


def test_a_body_that_is_too_large_is_refused_before_it_is_read(client: httpx.Client):
    """G9."""
    for endpoint in WITH_BODY:
        declared = client.request(endpoint.method, filled(endpoint.path), content=b"x" * 1_000_001)
        streamed = client.request(endpoint.method, filled(endpoint.path), content=iter([b"x" * 600_000] * 2))
        for answer in (declared, streamed):
            assert (answer.status_code, problem(answer)) == (413, "payload-too-large"), endpoint.path


NOWHERE = [
    "/",
    "/v1",
    "/v1/nope",
    "/v2/tasks",
    "/v1/tasks/",
    "/v1/tasks/x",
    "/v1/tasks/%00",
    "/v1/tasks/%ff",
    "/v1/workers/x",
    "/v1/tasks/01a1fca0-0000-7000-8000-00000000000g",
    "/v1/tasks/x/runs",
    "/v1/problems/none",
    "/v1/rooms/lab/jobs/%ED%A0%80",
    "/v1/rooms/lab/jobs/lab:%00:x",
    "/v1/rooms/lab/jobs/lab:tasks:%F0%9F%98%80",
]


@pytest.mark.parametrize("path", NOWHERE)
def test_a_path_that_leads_nowhere_is_a_404_problem(client: httpx.Client, path: str):
    """G9, Z17."""
    answer = client.get(path)

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_method_that_a_route_does_not_have_is_a_405_that_names_those_it_has(client: httpx.Client):
    """Z17."""
    answer = client.put("/v1/tasks/claim")

    assert (answer.status_code, problem(answer)) == (405, "method-not-allowed")
    assert answer.headers["allow"] == "POST"
    both = client.delete("/v1/rooms/lab/jobs")
    assert set(both.headers["allow"].split(", ")) == {"GET", "HEAD", "PUT"}


_TASK = "01a1fca0-0000-7000-8000-000000000000"
_HUGE = 2**63


@pytest.mark.parametrize(
    ("method", "path", "given"),
    [
        ("POST", f"/v1/tasks/{_TASK}/runs/{_HUGE}/started", None),
        ("POST", f"/v1/tasks/{_TASK}/runs/{_HUGE}/reclaim", None),
        ("PATCH", f"/v1/tasks/{_TASK}", {"status": "completed", "run_id": _HUGE}),
        ("PATCH", "/v1/workers/{worker}", {"stopped": [{"task_id": _TASK, "run_id": _HUGE}]}),
        ("PATCH", "/v1/workers/{worker}", {"tasks": [{"task_id": _TASK, "run_id": _HUGE}]}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"scheduled_at": "0001-01-01T00:00:00+14:00"}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"scheduled_at": "9999-12-31T23:59:59-14:00"}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"deadline": "0001-01-01T00:00:00Z"}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"scheduled_at": "2026-01-01T00:00:00"}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"scheduled_at": 1e300}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"delay": 1e300}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"priority": _HUGE}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"target": "x" * 256}),
        ("POST", "/v1/rooms/lab/tasks/lab:tasks:add", {"id": "x"}),
        ("POST", "/v1/rooms/lab/tasks", {"tasks": []}),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "a/b"}),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "a\nb"}),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": ""}),
        ("POST", "/v1/tasks/actions", {"action": "cancel"}),
        ("POST", "/v1/tasks/actions", {"action": "cancel", "ids": [], "filter": {}}),
        ("POST", "/v1/tokens", {"name": "a b"}),
        ("POST", "/v1/tokens", {"name": "a", "expires_at": "9999-12-31T23:59:59-14:00"}),
    ],
)
def test_values_that_no_database_can_hold_are_refused(client: httpx.Client, method: str, path: str, given: Any):
    """G9."""
    worker = client.post("/v1/workers").json()["id"]
    before = state(client)

    answer = client.request(method, path.replace("{worker}", worker), json=given)

    assert (answer.status_code, problem(answer)) == (422, "validation-error"), answer.text
    assert state(client) == before


_SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from(["", "\x00", "\ud800", _TASK, "running", "2026-01-01T00:00:00Z", "x" * 2000, "lab:tasks:add"])
)
_KEYS = st.text(max_size=6)
_FLAT = _SCALARS | st.lists(_SCALARS, max_size=3) | st.dictionaries(_KEYS, _SCALARS, max_size=3)
_VALUES = _FLAT | st.lists(_FLAT, max_size=3) | st.dictionaries(_KEYS, _FLAT, max_size=3)


@st.composite
def requests(draw: st.DrawFn) -> tuple[Endpoint, bytes]:
    """An endpoint, and a body of the fields that it knows with values that it does not expect."""
    endpoint = draw(st.sampled_from(WITH_BODY))
    if endpoint.body is None:
        return endpoint, draw(st.binary(max_size=20))
    names = [field.alias or name for name, field in endpoint.body.model_fields.items()]
    body = draw(st.dictionaries(st.sampled_from(names), _VALUES, min_size=1, max_size=6))
    return endpoint, json.dumps(body).encode()


@settings(max_examples=250, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_no_body_of_known_fields_makes_the_server_fail(
    client: httpx.Client, caplog: pytest.LogCaptureFixture, request: tuple[Endpoint, bytes]
):
    """G9: whatever the values, the answer is a success or a 4xx problem."""
    endpoint, content = request

    with caplog.at_level(logging.ERROR):
        answer = client.request(endpoint.method, filled(endpoint.path), content=content)

    assert answer.status_code < 500, (endpoint.path, content, answer.text)
    if answer.status_code >= 400:
        problem(answer)
    assert not caplog.records


_ODD_TEXT = st.text(st.characters() | st.sampled_from('\x00\ud800\udfff\U0001f600\\"\x7f\u2028'), max_size=6)
_ODD_NUMBERS = (
    st.floats()
    | st.integers(-(2**70), 2**70)
    | st.integers(0, MOST_DIGITS - 1).map(lambda digits: 10**digits)
    | st.sampled_from([-(10**MOST_DIGITS) + 1, 5e-324, 1.7976931348623157e308, -0.0])
)
_ODD_VALUES = st.recursive(
    st.none() | st.booleans() | _ODD_NUMBERS | _ODD_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_ODD_TEXT, inner, max_size=3),
    max_leaves=6,
)


def nested(value: Any, levels: int) -> Any:
    """Return the value within so many lists."""
    for _ in range(levels):
        value = [value]
    return value


def same(sent: Any, kept: Any) -> bool:
    """Return whether a value is what was sent; JSONB writes 1e308 with all its zeros, which Python reads as an int."""
    match sent:
        case float():
            return not isinstance(kept, bool) and isinstance(kept, int | float) and float(kept) == sent
        case list():
            return isinstance(kept, list) and len(sent) == len(kept) and all(map(same, sent, kept))
        case dict():
            return isinstance(kept, dict) and sent.keys() == kept.keys() and all(same(sent[k], kept[k]) for k in sent)
        case _:
            return type(sent) is type(kept) and sent == kept


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(value=st.builds(nested, _ODD_VALUES, st.just(0) | st.integers(MOST_LEVELS - 4, MOST_LEVELS)))
def test_what_the_checker_lets_through_is_kept_as_it_is_and_the_rest_is_refused(client: httpx.Client, value: Any):
    """N1: the rule that both sides share says exactly what the databases keep."""
    found = fault({"v": value}, "payload")

    told = client.post("/v1/rooms/lab/tasks/lab:tasks:add", content=json.dumps({"payload": {"v": value}}).encode())

    if found is not None:
        assert (told.status_code, problem(told)) == (422, "validation-error"), told.text
        # Where several things are wrong, it may name another one first.
        assert told.json()["detail"].startswith("payload")
        return
    assert told.status_code == 202, told.text
    kept = client.get(f"/v1/tasks/{told.json()['id']}").json()["payload"]["v"]
    assert same(value, kept), (value, kept)
