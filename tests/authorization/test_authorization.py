"""Who may do what, and who gets in at all."""

import stat
from pathlib import Path

import httpx
import pytest
from pydantic import ValidationError

from tests.api.rooms import Room, make_room, problem
from treadle_server.api.routes import ENDPOINTS
from treadle_server.authorization.permission import Permission
from treadle_server.settings import Settings
from treadle_server.testing import Served, serve

_PROBES = {"/healthz", "/readyz", "/v1/healthz", "/v1/readyz", "/v1/problems/{name}", "/v1/openapi.json"}
_SIGNED = {"/v1/uploads/{upload_id}"}
"""What a signature in the URL opens instead."""
_OPEN = _PROBES | _SIGNED


def filled(path: str) -> str:
    """Return the endpoint's path with something in each place."""
    uuid = "01a1fca0-0000-7000-8000-000000000000"
    parts = {"task_id": uuid, "worker_id": uuid, "token_id": uuid, "room": "lab", "job_name": "lab:tasks:add",
             "run_id:int": "0", "name": "forbidden", "name:path": "forbidden"}  # fmt: skip
    for name, value in parts.items():
        path = path.replace(f"{{{name}}}", value)
    return path


def test_what_needs_no_token_is_known_by_name():
    assert {endpoint.path for endpoint in ENDPOINTS if endpoint.permission.is_open} == _OPEN


async def test_no_endpoint_answers_without_a_valid_token(served: Served):
    async with httpx.AsyncClient(base_url=served.url) as nobody:
        for endpoint in ENDPOINTS:
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic eDp5"}):
                answer = await nobody.request(endpoint.method, filled(endpoint.path), headers=headers)
                if endpoint.path in _SIGNED:
                    assert (answer.status_code, problem(answer)) == (404, "artifact-not-found")
                elif endpoint.path in _OPEN:
                    assert answer.status_code == 200
                else:
                    assert (answer.status_code, problem(answer)) == (401, "unauthorized"), endpoint.path
                    assert answer.headers["www-authenticate"] == "Bearer"


async def test_only_superusers_make_and_see_tokens(root: httpx.AsyncClient, alice: httpx.AsyncClient):
    for endpoint in ENDPOINTS:
        if endpoint.permission is Permission.SUPERUSER:
            answer = await alice.request(endpoint.method, filled(endpoint.path), json={"name": "x"})
            assert (answer.status_code, problem(answer)) == (403, "forbidden")

    assert (await alice.get("/v1/whoami")).json() == {
        "user": "alice",
        "superuser": False,
        "scopes": [],
        "may_write": True,
        "expires_at": None,
    }
    assert (await root.get("/v1/whoami")).json() == {
        "user": "admin",
        "superuser": True,
        "scopes": ["*"],
        "may_write": True,
        "expires_at": None,
    }


async def test_a_token_is_shown_once_and_useless_when_revoked_or_expired(served: Served, root: httpx.AsyncClient):
    made = (await root.post("/v1/tokens", json={"name": "carol"})).json()
    headers = {"Authorization": f"Bearer {made['token']}"}
    assert (await root.get("/v1/whoami", headers=headers)).json()["user"] == "carol"

    listed = await root.get("/v1/tokens")
    assert made["token"] not in listed.text
    assert listed.json()["items"][0]["id"] == made["id"]
    assert (await root.delete(f"/v1/tokens/{made['id']}")).status_code == 204

    refused = await root.get("/v1/whoami", headers=headers)
    assert (refused.status_code, problem(refused)) == (401, "unauthorized")
    past = await root.post("/v1/tokens", json={"name": "dave", "expires_at": "2020-01-01T00:00:00Z"})
    assert (past.status_code, problem(past)) == (422, "validation-error")
    assert (await root.delete("/v1/tokens/nonsense")).status_code == 404


async def test_a_task_is_steered_by_its_submitter_and_superusers_only(
    root: httpx.AsyncClient, alice: httpx.AsyncClient, bob: httpx.AsyncClient
):
    """Z7: who may trigger what."""
    lab = await make_room(alice)
    task = await lab.submit()
    url = f"/v1/tasks/{task['id']}"

    for action in ("cancel", "pause"):
        answer = await bob.post(f"{url}/{action}")
        assert (answer.status_code, problem(answer)) == (403, "forbidden")
    for given in ({"status": "cancelled"}, {"priority": 5}):
        answer = await bob.patch(url, json=given)
        assert (answer.status_code, problem(answer)) == (403, "forbidden")
    bulk = (await bob.post("/v1/tasks/actions", json={"action": "cancel", "filter": {}})).json()
    assert (bulk["changed"], bulk["problems"][0]["type"]) == (0, "/v1/problems/forbidden")
    await lab.start()
    answer = await bob.post(f"{url}/runs/0/completed")
    assert (answer.status_code, problem(answer)) == (403, "forbidden")
    assert (await root.post(f"{url}/cancel")).status_code == 200


async def test_the_first_start_writes_a_superusers_token_for_its_owner_alone(served: Served, lab: Room):
    path = served.settings.token_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


async def test_a_later_start_keeps_the_token_and_a_lost_file_is_written_anew(tmp_path: Path):
    async with serve(data_dir=tmp_path) as first:
        token = first.token
    async with serve(data_dir=tmp_path) as second:
        assert second.token == token
    (tmp_path / "token").unlink()
    async with (
        serve(data_dir=tmp_path) as third,
        httpx.AsyncClient(base_url=third.url, headers=third.headers) as client,
    ):
        assert third.token != token
        assert (await client.get("/v1/whoami")).json()["superuser"] is True


async def test_a_later_start_replaces_what_is_no_token_nor_even_text(tmp_path: Path):
    (tmp_path / "token").write_bytes(b"\xff\xfe\x00")

    async with (
        serve(data_dir=tmp_path) as served,
        httpx.AsyncClient(base_url=served.url, headers=served.headers) as client,
    ):
        assert (await client.get("/v1/whoami")).json()["superuser"] is True


async def test_without_tokens_only_this_machine_and_no_web_page_gets_in(tmp_path: Path):
    with pytest.raises(ValidationError, match="loopback"):
        Settings(auth="none", host="0.0.0.0", data_dir=tmp_path)

    async with serve(data_dir=tmp_path, auth="none") as served, httpx.AsyncClient(base_url=served.url) as client:
        assert (await client.get("/v1/whoami")).json() == {
            "user": "admin",
            "superuser": True,
            "scopes": ["*"],
            "may_write": True,
            "expires_at": None,
        }
        for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Host": "evil.example"}):
            answer = await client.post("/v1/workers", headers=headers)
            assert (answer.status_code, problem(answer)) == (403, "forbidden"), headers
        assert (await client.get("/v1/workers", headers={"Origin": served.url})).json()["total"] == 0
