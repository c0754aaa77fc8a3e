"""Schemas and jobs in memory: whoever may register jobs, decides not how much of it the server takes."""

import json

import httpx
import pytest

from treadle_server.domain.jobs import MOST_TEXT
from treadle_server.operations import schemas
from treadle_server.operations.schemas import Validators, schema_without
from treadle_server.testing import Served

pytestmark = pytest.mark.anyio


def test_compiled_schemas_are_kept_as_far_as_they_are_not_too_much_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 64 KB takes 2 MB when it is compiled: two thousand of them were kept."""
    texts = [json.dumps({"allOf": [{"minimum": low}] * 100}) for low in range(5)]
    monkeypatch.setattr(schemas, "MOST_COMPILED", 3 * len(texts[0]))
    validators, compiled = Validators(), list[object]()

    def compile_schema(schema: dict[str, object]) -> object:
        compiled.append(schema)
        return schemas.compiled(schema)

    monkeypatch.setattr(schemas, "compile_schema", compile_schema)

    for text in [*texts, *texts[2:], texts[0]]:
        validators.is_checked(text, {}, 2)

    assert compiled == [json.loads(text) for text in [*texts, texts[0]]]


@pytest.mark.parametrize("most", [2**70 + 1, 10**400], ids=["70 bits", "400 digits"])
async def test_g9_a_schema_with_a_long_integer_is_one_as_payloads_are(root: httpx.AsyncClient, most: int) -> None:
    """It was registered, and each of the job's submits was answered 500, or checked against a number near it."""
    schema = {"type": "object", "properties": {"n": {"maximum": most}}, "required": ["n"]}
    body = json.dumps({"category": "tasks", "name": "long", "schema": schema, "retain": True})
    (await root.put("/v1/rooms/lab/jobs", content=body)).raise_for_status()

    answers = [
        await root.post("/v1/rooms/lab/tasks/lab:tasks:long", content=json.dumps({"payload": {"n": n}}))
        for n in (most, most + 1)
    ]

    assert [answer.status_code for answer in answers] == [202, 422]
    assert schema_without(json.dumps(schema), frozenset({"n"})) == json.dumps(
        schema | {"required": []}, separators=(",", ":")
    )


async def test_jobs_with_large_schemas_are_remembered_as_far_as_they_are_not_too_much_together(
    served: Served, root: httpx.AsyncClient
) -> None:
    """Sixty of five megabytes each took 350 MB of the server's memory, and kept them."""
    size = MOST_TEXT // 3
    for name in ("one", "two", "three", "four"):
        schema = {"type": "object", "description": "x" * size}
        body = {"category": "tasks", "name": name, "schema": schema, "retain": True}
        (await root.put("/v1/rooms/lab/jobs", json=body)).raise_for_status()
        for _ in range(2):
            (await root.post(f"/v1/rooms/lab/tasks/lab:tasks:{name}", json={"payload": {}})).raise_for_status()

    of_writer = served.engine._cache._jobs
    for remembered in (served.app.state.ctx.catalog._jobs, of_writer):
        assert size < sum(job.size for job, _ in remembered._kept.values()) <= MOST_TEXT
    again = await root.post("/v1/rooms/lab/tasks/lab:tasks:one", json={"payload": {}})
    assert again.status_code == 202
