"""Temporary credentials over HTTP: what they reach, how long they live, and who makes them (C2, C4, C9, G10)."""

import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from shutil import copyfile
from typing import Any

import httpx
import jwt
import pytest
from sqlalchemy import select

from tests.api.rooms import Room, make_room, problem
from tests.clients import client_at
from tests.conftest import FakeClock
from treadle_server.access.credentials import SKEW
from treadle_server.access.keys import KEPT
from treadle_server.domain.artifacts import AFTER_EXCEPTION
from treadle_server.errors import Unauthorized
from treadle_server.store.tables import signing_keys
from treadle_server.testing import Served, serve

SUBMIT = "queue:create-task:lab/lab:tasks:add"


@dataclass
class Site:
    """A server whose time is turned by hand, alice's room in it, and clients with whatever token."""

    served: Served
    clock: FakeClock
    stack: AsyncExitStack
    root: httpx.AsyncClient
    room: Room

    async def enter(self, token: str) -> httpx.AsyncClient:
        """Let somebody in."""
        headers = {"Authorization": f"Bearer {token}"}
        client = client_at(self.served.url, headers)
        return await self.stack.enter_async_context(client)

    async def take(self, **options: Any) -> "Run":
        """Submit a task and claim it."""
        await self.room.submit(**options)
        claim = (await self.room.claim())["task"]
        return Run(claim, await self.enter(claim["credentials"]))


@dataclass
class Run:
    """A claimed task, and a client that shows its credential."""

    claim: dict[str, Any]
    code: httpx.AsyncClient

    @property
    def credentials(self) -> str:
        return str(self.claim["credentials"])

    async def report(self, kind: str, body: Any = None, *, of: "Run | None" = None, run_id: int | None = None) -> Any:
        """Report of a run, its own unless said otherwise."""
        claim = (of or self).claim
        run_id = claim["run_id"] if run_id is None else run_id
        return await self.code.post(f"/v1/tasks/{claim['id']}/runs/{run_id}/{kind}", json=body)

    async def whoami(self) -> httpx.Response:
        return await self.code.get("/v1/whoami")


@asynccontextmanager
async def a_site(url: str, data_dir: Path, clock: FakeClock) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        served = await stack.enter_async_context(serve(url, data_dir=data_dir, clock=clock))
        root = await stack.enter_async_context(httpx.AsyncClient(base_url=served.url, headers=served.headers))
        made = await root.post("/v1/tokens", json={"name": "alice"})
        headers = {"Authorization": f"Bearer {made.json()['token']}"}
        alice = await stack.enter_async_context(client_at(served.url, headers))
        yield Site(served, clock, stack, root, await make_room(alice))


@pytest.fixture
async def site(tmp_path: Path, sqlite_template: Path, clock: FakeClock) -> AsyncIterator[Site]:
    path = tmp_path / "treadle.db"
    copyfile(sqlite_template, path)
    async with a_site(f"sqlite:///{path}", tmp_path / "data", clock) as site:
        yield site


@pytest.fixture
async def site_of_each(tmp_path: Path, database_url: str, clock: FakeClock) -> AsyncIterator[Site]:
    async with a_site(database_url, tmp_path / "data", clock) as site:
        yield site


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, problem(answer)


async def test_c9_a_credential_holds_its_runs_scope_and_its_tasks_scopes_and_nothing_else(site_of_each: Site):
    run = await site_of_each.take(scopes=[SUBMIT, "queue:read:lab"])
    bare = await site_of_each.take()

    own = f"queue:claim-task:{run.claim['id']}/0"
    assert (await run.whoami()).json() == {
        "user": "alice",
        "superuser": False,
        "scopes": sorted([own, SUBMIT, "queue:read:lab"]),
        "may_write": True,
        "expires_at": "2026-01-01T12:01:05Z",
    }
    assert (await bare.whoami()).json()["scopes"] == [f"queue:claim-task:{bare.claim['id']}/0"]


async def test_c9_a_credential_does_for_its_run_what_the_worker_may_and_ends_with_it(site_of_each: Site):
    run = await site_of_each.take()

    for kind, body in (
        ("started", None),
        ("progress", {"share": 0.5}),
        ("checkpoint", {"checkpoint": [1]}),
        ("logs", {"lines": [{"message": "hello"}]}),
        ("reclaim", None),
    ):
        assert (await run.report(kind, body)).status_code == 200, kind
    assert (await run.code.get(f"/v1/tasks/{run.claim['id']}")).json()["checkpoint"] == [1]
    assert (await run.report("completed", {"result": 7})).json()["result"] == 7

    assert (await run.report("completed", {"result": 7})).status_code == 200  # the same once more (C7)
    assert refusal(await run.report("progress", {"share": 1})) == (409, "stale-run")
    assert refusal(await run.report("reclaim")) == (409, "stale-run")
    assert refusal(await run.whoami()) == (401, "unauthorized")


async def test_c9_an_older_client_that_updates_the_status_may_show_the_credential(site: Site):
    run = await site.take()
    path = f"/v1/tasks/{run.claim['id']}"

    assert (await run.code.patch(path, json={"status": "running"})).status_code == 200
    done = await run.code.patch(path, json={"status": "completed", "result": 1})

    assert (done.status_code, done.json()["result"]) == (200, 1)
    assert (await run.code.patch(path, json={"status": "failed"})).status_code == 409


@pytest.mark.parametrize("end", ["cancel", "loss"])
async def test_c9_a_credential_is_dead_at_once_when_its_task_is_cancelled_or_taken_away(site: Site, end: str):
    run = await site.take(max_requeues=1)
    assert (await run.whoami()).status_code == 200

    if end == "cancel":
        await site.room.client.post(f"/v1/tasks/{run.claim['id']}/cancel")
    else:
        await site.room.client.delete(f"/v1/workers/{site.room.worker_id}")

    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert refusal(await run.report("reclaim")) == (409, "stale-run")


async def test_c9_a_credential_expires_shortly_after_its_lease(site: Site):
    run = await site.take(lease_seconds=30)

    site.clock.advance(30 + SKEW.total_seconds() - 0.1)
    assert (await run.whoami()).status_code == 200
    site.clock.advance(0.2)

    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert refusal(await run.report("started")) == (401, "unauthorized")
    assert (await site.room.get(run.claim["id"]))["status"] == "claimed"


async def test_c4_a_reclaim_gives_a_fresh_credential_that_lives_as_long_as_the_new_lease(site: Site):
    run = await site.take(lease_seconds=30)
    site.clock.advance(20)

    answer = (await run.report("reclaim")).json()
    site.clock.advance(16)

    fresh = Run(run.claim, await site.enter(answer["credentials"]))
    assert answer["seconds_left"] == 30
    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert (await fresh.whoami()).json()["scopes"] == [f"queue:claim-task:{run.claim['id']}/0"]


async def test_c9_a_credential_is_useless_for_another_run_and_leaves_it_as_it_was(site_of_each: Site):
    run, other = await site_of_each.take(), await site_of_each.take()
    before = await site_of_each.room.get(other.claim["id"])

    for kind, body in (
        ("started", None),
        ("completed", {}),
        ("failed", {}),
        ("exception", {"reason": "internal-error"}),
        ("paused", {}),
        ("stopped", None),
        ("checkpoint", {"checkpoint": 1}),
        ("progress", {"share": 1}),
        ("logs", {"lines": [{"message": "x"}]}),
        ("reclaim", None),
    ):
        assert (await run.report(kind, body, of=other)).status_code in {403, 404}, kind
    assert (await run.report("started", run_id=1)).status_code in {403, 409}

    assert await site_of_each.room.get(other.claim["id"]) == before


async def test_c9_the_credential_of_a_run_that_failed_reaches_no_further_try(site: Site):
    run = await site.take(max_retries=1, retry_base=0)
    await run.report("started")
    assert (await run.report("failed", {"error": "no"})).json()["status"] == "pending"
    again = (await site.room.claim())["task"]
    assert (again["id"], again["run_id"]) == (run.claim["id"], 1)

    assert refusal(await run.report("completed", {})) == (409, "stale-run")
    assert (await run.report("completed", {}, run_id=1)).status_code in {403, 409}
    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert (await site.room.get(again["id"]))["status"] == "claimed"


async def test_g10_a_credential_is_no_user_it_owns_neither_tasks_nor_workers(site: Site):
    run = await site.take()
    pending = await site.room.submit()
    worker = site.room.worker_id
    report = {"task_id": run.claim["id"], "run_id": 0, "kind": "started"}

    for method, path, body in (
        ("POST", f"/v1/tasks/{pending['id']}/cancel", None),
        ("PATCH", f"/v1/tasks/{pending['id']}", {"status": "cancelled"}),
        ("PATCH", f"/v1/tasks/{pending['id']}", {"priority": 9}),
        ("POST", f"/v1/rooms/lab/tasks/{site.room.job}", {"payload": {"n": 1}}),
        ("PUT", "/v1/rooms/lab/jobs", {"category": "tasks", "name": "other", "schema": {}}),
        ("PATCH", f"/v1/rooms/lab/jobs/{site.room.job}", {"paused": True}),
        ("POST", "/v1/workers", {}),
        ("PATCH", f"/v1/workers/{worker}", {}),
        ("DELETE", f"/v1/workers/{worker}", None),
        ("POST", "/v1/tasks/claim", {"worker_id": worker}),
        ("POST", f"/v1/workers/{worker}/reports", {"reports": [report]}),
        ("GET", "/v1/tokens", None),
        ("POST", "/v1/signing-keys", {}),
    ):  # fmt: skip
        answer = await run.code.request(method, path, json=body)
        assert answer.status_code in {403, 404}, (method, path, answer.text)

    assert (await run.code.get("/v1/tasks")).json()["items"] == []
    assert (await site.room.get(pending["id"])) == pending | {"queue_position": 1}
    assert (await site.root.get(f"/v1/workers/{worker}")).json()["running_count"] == 1


async def test_g10_a_credential_submits_what_its_tasks_scopes_allow_until_the_run_is_over(site: Site):
    run = await site.take(scopes=[SUBMIT])
    path = f"/v1/rooms/lab/tasks/{site.room.job}"

    made = await run.code.post(path, json={"payload": {"n": 2}})
    elsewhere = await run.code.post(f"/v1/rooms/other/tasks/{site.room.job}", json={"payload": {"n": 2}})
    more = await run.code.post(path, json={"payload": {"n": 2}, "scopes": ["queue:read:lab"]})

    assert (made.status_code, made.json()["submitter"]) == (202, "alice")
    assert elsewhere.status_code in {403, 404}
    assert refusal(more) == (403, "forbidden")
    await run.report("started")
    await run.report("completed", {})
    assert refusal(await run.code.post(path, json={"payload": {"n": 3}})) == (401, "unauthorized")


@pytest.mark.parametrize(("minutes", "status"), [(19, 201), (21, 401)])
async def test_g10_after_an_exception_artifacts_are_uploaded_for_20_minutes_and_nothing_else_is_done(
    site: Site, minutes: int, status: int
):
    run = await site.take(lease_seconds=30)
    assert (await run.report("exception", {"reason": "internal-error"})).status_code == 200
    site.clock.advance(minutes * 60)

    announced = await run.report("artifacts", {"name": "core.txt", "content_type": "text/plain", "content_length": 3})

    assert announced.status_code == status, announced.text
    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert refusal(await run.report("logs", {"lines": [{"message": "x"}]})) == (401, "unauthorized")


async def test_g10_after_a_completion_nothing_is_uploaded(site: Site):
    run = await site.take()
    await run.report("started")
    await run.report("completed", {})

    late = await run.report("artifacts", {"name": "x", "content_type": "text/plain", "content_length": 3})

    assert late.status_code == 409


async def test_c8_a_request_is_narrowed_to_a_part_of_what_the_credential_holds(site: Site):
    run = await site.take(scopes=[SUBMIT])
    own = f"queue:claim-task:{run.claim['id']}/0"

    async def started(*scopes: str) -> httpx.Response:
        headers = {"Treadle-Authorized-Scopes": json.dumps(scopes)}
        return await run.code.post(f"/v1/tasks/{run.claim['id']}/runs/0/started", headers=headers)

    assert refusal(await started(own, "queue:read:lab")) == (403, "forbidden")
    assert refusal(await started(SUBMIT)) == (403, "forbidden")
    assert (await started(own)).status_code == 200


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def nested(depth: int) -> str:
    return base64.urlsafe_b64encode(b"[" * depth).rstrip(b"=").decode()


def forge(change: Callable[[dict[str, Any], dict[str, Any]], str]) -> Callable[[str], str]:
    """Return what makes another credential from the header and the claims of a true one."""

    def make(token: str) -> str:
        return change(jwt.get_unverified_header(token), jwt.decode(token, options={"verify_signature": False}))

    return make


FORGED: dict[str, Callable[[str], str]] = {
    "no algorithm": forge(lambda head, claims: f"{encoded(head | {'alg': 'none'})}.{encoded(claims)}."),
    "another key": forge(lambda head, claims: jwt.encode(claims, bytes(32), "HS256", head)),
    "another algorithm": forge(lambda head, claims: jwt.encode(claims, bytes(64), "HS512", {"kid": head["kid"]})),
    "an unknown key": forge(lambda _, claims: jwt.encode(claims, bytes(32), "HS256", {"kid": "0" * 16})),
    "no key's name": forge(lambda _, claims: jwt.encode(claims, bytes(32), "HS256")),
    "more scopes": lambda token: ".".join([token.split(".")[0], encoded({"scopes": ["*"]}), token.split(".")[2]]),
    "no signature": lambda token: token.rpartition(".")[0] + ".",
    "half a signature": lambda token: token[:-20],
    "nonsense": lambda _: "a.b.c",
    "no JSON": lambda _: f"{base64.urlsafe_b64encode(bytes(9)).decode()}.e30.e30",
    "deep JSON": lambda _: f"{nested(20_000)}.e30.e30",
    "too long": lambda token: token + "A" * 70_000,
}


async def test_g10_a_credential_is_signed_as_a_library_for_such_tokens_signs_it(site: Site):
    run = await site.take(scopes=[SUBMIT, "queue:read:lab"])
    [key] = await keys_of(site)

    claims = jwt.decode(run.credentials, key.secret, ["HS256"], options={"verify_exp": False})

    assert run.credentials == signed(claims, key)
    assert claims["scopes"] == [f"queue:claim-task:{run.claim['id']}/0", SUBMIT, "queue:read:lab"]


@pytest.mark.parametrize("forged", FORGED)
async def test_g10_a_forged_credential_is_refused_and_not_a_word_of_it_is_repeated(site: Site, forged: str):
    run = await site.take()
    token = FORGED[forged](run.credentials)

    with pytest.raises(Unauthorized) as refused:
        await site.served.app.state.ctx.access.principal(token)

    assert "credential" in refused.value.detail
    assert token[:20] not in refused.value.detail
    if len(token) < 10_000:
        assert refusal(await (await site.enter(token)).get("/v1/whoami")) == (401, "unauthorized")


async def test_g10_a_new_key_signs_at_once_and_the_old_ones_verify_until_the_longest_lease_is_over(site_of_each: Site):
    long = await site_of_each.take(lease_seconds=7200)
    [key_before] = await keys_of(site_of_each)

    rotated = await site_of_each.root.post("/v1/signing-keys")
    after = await site_of_each.take(lease_seconds=7200)

    new, old = rotated.json()["items"]
    assert rotated.status_code == 201
    assert (new["valid_until"], old["id"]) == (None, key_before.id)
    assert jwt.get_unverified_header(long.credentials)["kid"] == old["id"]
    assert jwt.get_unverified_header(after.credentials)["kid"] == new["id"]
    site_of_each.clock.advance(7200 + SKEW.total_seconds() - 1)
    assert (await long.whoami()).status_code == (await after.whoami()).status_code == 200
    # Forged with the old key, a credential of a thousand hours ends with the key.
    claims = jwt.decode(long.credentials, options={"verify_signature": False}) | {"exp": 4_000_000_000}
    for_ever = Run(long.claim, await site_of_each.enter(signed(claims, key_before)))
    assert (await for_ever.whoami()).status_code == 200
    site_of_each.clock.advance(AFTER_EXCEPTION.total_seconds() + 1)
    assert refusal(await for_ever.whoami()) == (401, "unauthorized")
    await site_of_each.root.post("/v1/signing-keys")
    assert key_before.id not in {key.id for key in await keys_of(site_of_each)}


async def test_g10_a_key_that_leaked_is_revoked_with_all_that_it_has_signed(site: Site):
    run = await site.take()
    [leaked] = await keys_of(site)

    assert (await site.root.post("/v1/signing-keys", json={"revoke": True})).status_code == 201

    assert refusal(await run.whoami()) == (401, "unauthorized")
    assert leaked.id not in {key.id for key in await keys_of(site)}
    fresh = await site.room.client.post(f"/v1/tasks/{run.claim['id']}/runs/0/reclaim")
    assert (await Run(run.claim, await site.enter(fresh.json()["credentials"])).whoami()).status_code == 200


async def test_g10_only_a_superuser_makes_keys_and_their_secrets_are_never_shown(site: Site):
    assert refusal(await site.room.client.post("/v1/signing-keys")) == (403, "forbidden")

    shown = await site.root.post("/v1/signing-keys")

    assert [set(item) for item in shown.json()["items"]] == [{"id", "created_at", "valid_until"}] * 2
    [signs] = [key for key in await keys_of(site) if key.valid_until is None]
    [retired] = [key for key in await keys_of(site) if key.valid_until is not None]
    assert retired.valid_until == site.clock.now() + KEPT
    assert signs.id == shown.json()["items"][0]["id"]


async def test_g10_keys_outlive_the_server_that_made_them(tmp_path: Path, database_url: str, clock: FakeClock):
    async with a_site(database_url, tmp_path / "data", clock) as site:
        run = await site.take()
        [before] = await keys_of(site)

    async with serve(database_url, data_dir=tmp_path / "data", clock=clock) as served:
        headers = {"Authorization": f"Bearer {run.credentials}"}
        async with httpx.AsyncClient(base_url=served.url, headers=headers) as code:
            assert (await code.get("/v1/whoami")).json()["user"] == "alice"
        async with served.engine.store.read() as connection:
            assert [row.id for row in await connection.execute(select(signing_keys))] == [before.id]


@pytest.mark.postgres
async def test_g11_servers_on_one_database_take_each_others_credentials_also_after_a_rotation_at_one_of_them(
    tmp_path: Path, postgres_database: str, clock: FakeClock
):
    async with (
        a_site(postgres_database, tmp_path / "data", clock) as site,
        serve(postgres_database, data_dir=tmp_path / "data", clock=clock) as second,
    ):
        await site.take()
        await site.root.post("/v1/signing-keys")
        run = await site.take()

        headers = {"Authorization": f"Bearer {run.credentials}"}
        async with httpx.AsyncClient(base_url=second.url, headers=headers) as code:
            assert (await code.get("/v1/whoami")).status_code == 200
            clock.advance(6)
            reclaimed = await code.post(f"/v1/tasks/{run.claim['id']}/runs/0/reclaim")

        kid = jwt.get_unverified_header(reclaimed.json()["credentials"])["kid"]
        assert kid == jwt.get_unverified_header(run.credentials)["kid"]


async def test_g10_no_credential_is_kept_logged_or_told_to_anybody_else(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    with caplog.at_level(logging.DEBUG):
        run = await site.take()
        told = [
            (await site.root.get(path)).text
            for path in (f"/v1/tasks/{run.claim['id']}", "/v1/tasks", "/v1/workers", "/v1/events", "/v1/tokens")
        ]
        told.append((await run.code.get("/v1/tokens")).text)
        await run.report("reclaim")
        await site.room.client.post(f"/v1/tasks/{run.claim['id']}/cancel")
        told.append((await run.whoami()).text)
        await site.served.app.state.ctx.access.credentials.keys.rotate(keeps_for=timedelta(0))

    signature = run.credentials.rpartition(".")[2]
    on_disk = b"".join(path.read_bytes() for path in files_of(tmp_path))
    assert run.claim["id"].encode() in on_disk
    assert signature.encode() not in on_disk
    assert signature not in "".join(told)
    assert signature not in caplog.text


def files_of(directory: Path) -> list[Path]:
    return list(directory.glob("treadle.db*"))


async def keys_of(site: Site) -> list[Any]:
    async with site.served.engine.store.read() as connection:
        return list(await connection.execute(select(signing_keys)))


def signed(claims: dict[str, Any], key: Any) -> str:
    return jwt.encode(claims, key.secret, algorithm="HS256", headers={"kid": key.id})
