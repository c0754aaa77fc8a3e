"""The OpenAPI document and the table that it is made from."""

import re

import httpx

from treadle.wire.problems import PROBLEMS
from treadle_server.api.openapi import document
from treadle_server.api.routes import ENDPOINTS
from treadle_server.testing import serve


def references(value: object) -> set[str]:
    """Return every `$ref` in the document."""
    if isinstance(value, dict):
        own = {str(value["$ref"])} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(references(part) for part in value.values()))
    if isinstance(value, list):
        return set().union(*(references(part) for part in value))
    return set()


def test_the_document_describes_every_endpoint_and_resolves_every_reference():
    found = document(ENDPOINTS)

    operations = {(method.upper(), path) for path, methods in found["paths"].items() for method in methods}
    assert operations == {(e.method, re.sub(r":\w+}", "}", e.path)) for e in ENDPOINTS}
    ids = [operation["operationId"] for methods in found["paths"].values() for operation in methods.values()]
    assert len(ids) == len(set(ids))
    known = {f"#/components/schemas/{name}" for name in found["components"]["schemas"]}
    assert references(found) <= known
    assert found["openapi"] == "3.1.0"


def test_every_endpoint_says_what_it_does_and_names_known_problems():
    for endpoint in ENDPOINTS:
        assert endpoint.summary, endpoint.path
        assert set(endpoint.problems) <= set(PROBLEMS), endpoint.path
        assert endpoint.path.startswith("/v1/") or endpoint.path in {"/healthz", "/readyz", "/metrics"}
    assert len({(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


async def test_the_document_and_the_pages_of_problems_need_no_token():
    async with serve() as served, httpx.AsyncClient(base_url=served.url) as nobody:
        answer = await nobody.get("/v1/openapi.json")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert "/v1/tasks/{task_id}" in answer.json()["paths"]
        for problem in PROBLEMS.values():
            page = await nobody.get(problem.uri)
            assert page.status_code == 200
            assert str(problem.status) in page.text
