"""The OpenAPI document and the table that it is made from."""

import re
from pathlib import Path
from typing import Any

import httpx

from treadle.wire.filters import SEVERAL
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


WORDS = frozenset(
    {
        "$ref",
        "additionalProperties",
        "anyOf",
        "const",
        "default",
        "description",
        "enum",
        "exclusiveMaximum",
        "exclusiveMinimum",
    }
    | {"format", "items", "maxItems", "maxLength", "maxProperties", "maximum", "minItems", "minLength", "minProperties"}
    | {"minimum", "oneOf", "pattern", "patternProperties", "prefixItems", "properties", "propertyNames", "required"}
    | {"title", "type", "uniqueItems"}
)
"""What a schema says here, in JSON Schema's words."""


def unknown_words(schema: object) -> set[str]:
    """Return the words of a schema that mean nothing to who reads it."""
    if isinstance(schema, list):
        return set().union(*map(unknown_words, schema))
    if not isinstance(schema, dict):
        return set()
    found = set(schema) - WORDS
    for word, value in schema.items():
        if word in {"properties", "patternProperties"}:
            found |= unknown_words(list(value.values()))
        elif word not in {"default", "const", "enum", "required"}:
            found |= unknown_words(value)
    return found


def test_the_schemas_say_what_they_say_in_words_of_json_schema():
    """Bounds of a filter's numbers stood there as `ge` and `le`, which nobody reads."""
    schemas = document(ENDPOINTS)["components"]["schemas"]

    assert {name: words for name, schema in schemas.items() if (words := unknown_words(schema))} == {}


NO_JSON = frozenset({"get_artifact", "metrics", "problem", "openapi"})


def test_every_answer_with_a_body_has_a_schema_and_every_body_that_is_taken_too():
    found = document(ENDPOINTS)

    for endpoint in ENDPOINTS:
        operation = found["paths"][re.sub(r":\w+}", "}", endpoint.path)][endpoint.method.lower()]
        if endpoint.name not in NO_JSON and endpoint.status != 204:
            assert "application/json" in operation["responses"][str(endpoint.status)]["content"], endpoint.name
        assert ("requestBody" in operation) == (endpoint.body is not None or endpoint.streams), endpoint.name


async def test_a_page_is_as_long_as_the_document_says():
    found = document(ENDPOINTS)
    told = {
        path: parameter["schema"]["default"]
        for path, methods in found["paths"].items()
        for parameter in methods.get("get", {}).get("parameters", [])
        if parameter["name"] == "limit"
    }
    async with serve() as served, httpx.AsyncClient(base_url=served.url, headers=served.headers) as client:
        job = (await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add"})).json()["full_name"]
        task = (await client.post(f"/v1/rooms/lab/tasks/{job}")).json()["id"]
        await client.put("/v1/rooms/lab/webhooks/hook", json={"url": "https://receiver.example"})
        places = {"room": "lab", "job_name": job, "task_id": task, "name": "hook"}
        for path, limit in told.items():
            page = await client.get(path.format(**places))
            assert page.json()["limit"] == limit, path

    assert set(told.values()) == {50, 500}


def test_what_may_stand_in_a_query_several_times_is_a_list_and_headers_are_told():
    paths = document(ENDPOINTS)["paths"]
    of_list = {one["name"]: one["schema"] for one in paths["/v1/tasks"]["get"]["parameters"]}

    assert {name for name, schema in of_list.items() if schema["type"] == "array"} == SEVERAL | {"status"}
    for path, method, header in (
        ("/v1/tasks/{task_id}", "get", "Prefer"),
        ("/v1/tasks/claim", "post", "Idempotency-Key"),
        ("/v1/tasks/{task_id}/artifacts/{name}", "get", "Range"),
    ):
        assert header in {one["name"] for one in paths[path][method]["parameters"] if one["in"] == "header"}


async def test_the_headers_of_answers_are_those_that_the_document_tells():
    paths = document(ENDPOINTS)["paths"]
    seen: dict[str, set[str]] = {}
    async with serve() as served, httpx.AsyncClient(base_url=served.url, headers=served.headers) as client:

        async def ask(method: str, path: str, headers: dict[str, str] | None = None, **body: Any) -> httpx.Response:
            url = path.format(room="lab", job_name="lab:tasks:add", task_id=body.pop("task", ""))
            answer = await client.request(method, url, headers=headers, json=body or None)
            told = paths[path][method.lower()]["responses"][str(answer.status_code)].get("headers", {})
            has = {name.title() for name in answer.headers} & {name.title() for name in ALL_TOLD}
            assert has == {name.title() for name in told}, f"{method} {path}: {answer.status_code}"
            seen.setdefault(path, set()).update(has)
            return answer

        await ask("PUT", "/v1/rooms/{room}/jobs", category="tasks", name="add")
        task = (await ask("POST", "/v1/rooms/{room}/tasks/{job_name}", payload={})).json()["id"]
        await ask("POST", "/v1/rooms/{room}/tasks/{job_name}", payload={}, id=task)
        await ask("POST", "/v1/rooms/{room}/tasks", tasks=[{"job": "lab:tasks:add", "payload": {}}])
        await ask("POST", "/v1/workers", name="one")
        await ask("GET", "/v1/tasks/{task_id}", {"Prefer": "wait=1"}, task=task)
        await ask("GET", "/v1/whoami", {"Authorization": "Bearer nobodys"})

    assert seen["/v1/rooms/{room}/tasks/{job_name}"] == {"Location", "Retry-After"}
    assert seen["/v1/whoami"] == {"Www-Authenticate"}


ALL_TOLD = ("Location", "Retry-After", "WWW-Authenticate", "Preference-Applied")
"""Those that mean something to a program."""


async def test_what_comes_to_no_route_is_answered_as_the_document_says_of_every_one():
    paths = document(ENDPOINTS)["paths"]
    async with serve() as served, httpx.AsyncClient(base_url=served.url) as client:
        answers = [
            await client.get("/v1/tasks", params={"tag": "a" * 9000}),
            await client.request("GOT", "/v1/tasks"),
        ]

    for answer, status in zip(answers, (431, 400), strict=True):
        assert answer.status_code == status
        kind = answer.headers["content-type"].partition(";")[0]
        for path, methods in paths.items():
            for method, operation in methods.items():
                assert kind in operation["responses"][str(status)]["content"], (method, path)


async def test_the_document_and_the_pages_of_problems_need_no_token():
    async with serve() as served, httpx.AsyncClient(base_url=served.url) as nobody:
        answer = await nobody.get("/v1/openapi.json")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
        assert "/v1/tasks/{task_id}" in answer.json()["paths"]
        for problem in PROBLEMS.values():
            page = await nobody.get(problem.uri)
            assert page.status_code == 200
            assert str(problem.status) in page.text


def test_the_document_has_every_model_that_the_page_of_the_socket_names():
    page = (Path(__file__).parents[2] / "docs/protocol.md").read_text()
    rows = re.findall(r"^\| `[a-z_`, ]+` \|(.*)\|$", page, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)*\b", row)}
    models = named - {"Left", "None", "Whoever"}

    assert {"Claim", "Receipt", "TaskOfMany", "WorkerItem"} <= models
    assert models <= set(document(ENDPOINTS)["components"]["schemas"])


async def test_a_limit_that_a_task_counts_against_has_no_member_that_the_document_has_not():
    members = document(ENDPOINTS)["components"]["schemas"]["LimitOfTask"]["properties"]
    async with serve() as served, httpx.AsyncClient(base_url=served.url, headers=served.headers) as client:
        await client.put("/v1/rooms/lab/jobs", json={"category": "tasks", "name": "add", "retain": True})
        await client.put("/v1/rooms/lab/limits/api", json={"concurrency": 1})
        limits = {"limits": [{"name": "api"}]}
        task = (await client.post("/v1/rooms/lab/tasks/lab:tasks:add", json=limits)).json()

    [limit] = task["counts_against"]
    assert (limit["own"], set(limit)) == (True, set(members))
